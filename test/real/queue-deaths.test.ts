// Nothing is lost: 300 tasks on machines and a Redis that die all the time; and a machine that wakes up when another one has
// taken over.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readFound } from '../e2e/store-files.ts';
import { until } from '../e2e/support.ts';
import { resultOf, STEPS } from '../many/support.ts';
import { type Lab, LOST_AFTER_MS, openLab } from './lab.ts';

let lab: Lab;
beforeEach(async () => {
  lab = await openLab();
});
afterEach(() => lab.close());

const FILES = ['-r', 'result.dat', '-k', 'state.chk'];
const SEED = 12;
const ROUNDS = 8;

/** The same each time. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

const sleepMs = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** By index, how many attempts of it say that they have done it. */
function donesOf(taskName: string): ReadonlyMap<number, number> {
  const dir = path.join(lab.place.store, '.capture', taskName);
  const dones = (index: string): number =>
    fs.readdirSync(path.join(dir, index)).filter((name) => name.endsWith('.done.json')).length;
  return new Map(fs.readdirSync(dir).map((index) => [Number(index), dones(index)]));
}

it('a worker stays for the task of one that died, though its --idle-timeout is shorter than the lease', async () => {
  const go = path.join(lab.place.dir, 'go');
  const task = `echo {index} >r; until [ -e ${go} ]; do sleep 0.1; done`;
  await lab.submit('one', ['--array', '0', '-r', 'r'], ['sh', '-c', task]);
  const machine = lab.startMachine();
  await until(() => lab.place.keys().includes('r.0'), 'it is at work');
  machine.losePower();
  const shown = await lab.command('status');
  expect(shown.stdout()).toMatch(/^one +waiting +1 +0 /m);
  expect(shown.stdout()).toMatch(/^one 0 lost with \S+: runs again when a worker is here$/m);
  fs.writeFileSync(go, '');
  const other = lab.startMachine('--idle-timeout', '1s');
  expect(await other.worker.status, other.worker.stderr()).toBe(0);
  expect((await lab.status()).submissions.map(({ state }) => state)).toEqual(['over']);
});

it('does each of 300 tasks once, however machines and Redis die', { timeout: 600_000 }, async () => {
  for (const [name, indices, options] of [
    ['any', '0-199', []],
    ['gpu', '200-259', ['--needs', 'gpu', '--priority', '1']],
    ['both', '260-299', ['--needs', 'gpu,openfoam', '--after', 'gpu', '--priority', '1']],
  ] as const) {
    const run = await lab.submit(name, ['--array', indices, ...FILES, ...options], [STEPS, '{index}', '0.1']);
    expect(await run.status, run.stderr()).toBe(0);
  }
  const kinds = [[], ['--has', 'gpu'], ['--has', 'gpu,openfoam']];
  const machines = kinds.map((kind) => lab.startMachine(...kind));
  const random = randomOf(SEED);
  for (let round = 0; round < ROUNDS; round += 1) {
    await sleepMs(1000 + random() * 3000);
    const which = Math.floor(random() * kinds.length);
    // Either the worker alone, of which its tasks hear, or the whole machine.
    if (random() < 0.5) machines[which]?.worker.child.kill('SIGKILL');
    else machines[which]?.losePower();
    machines[which] = lab.startMachine(...(kinds[which] ?? []));
    if (round === 2 || round === 5) await lab.redis.killAndRestart();
    if (round === 3) {
      const other = machines[(which + 1) % kinds.length];
      other?.freeze();
      await sleepMs(LOST_AFTER_MS * 2);
      other?.wake();
    }
  }
  await lab.untilAll('over', 400_000);
  const resultIn = lab.results();
  for (let index = 0; index < 300; index += 1)
    expect(resultIn(index), `index ${index}`).toBe(resultOf(index));
  expect([...donesOf('steps.sh')].filter(([, dones]) => dones !== 1)).toEqual([]);
  const seen = await lab.place.capture(['status', lab.place.store, '--array', '0-299']).status;
  expect(seen).toBe(0);
  expect(await Promise.all(machines.map((one) => one.shutDown()))).toEqual([75, 75, 75]);
});

it('lets a machine that was stopped longer than its lock write nothing when it wakes', async () => {
  await lab.submit('one', ['--array', '7', ...FILES], [STEPS, '{index}', '0.5']);
  const stopped = lab.startMachine();
  // Between two of its checkpoints: nothing is on its way to the store.
  await until(() => lab.place.records().some(({ record }) => record.kind === 'checkpoint'), 'it has one');
  stopped.freeze();
  const other = lab.startMachine();
  await lab.untilAll('over');
  expect(lab.results()(7)).toBe(resultOf(7));
  const contents = (): readonly (readonly [string, string])[] =>
    readFound(lab.place.store).map((key) => [
      key,
      fs.readFileSync(path.join(lab.place.store, key), 'base64'),
    ]);
  const before = contents();
  stopped.wake();
  await stopped.worker.says('one index 7 is at work in another attempt: it is left to that one');
  expect(await stopped.shutDown()).toBe(75);
  // The task goes on until its attempt looks at the fence: an object of its own may come, which no record names.
  const isItsOwn = (key: string): boolean => key.startsWith('state.chk.steps.sh.7.1-');
  expect(contents().filter(([key]) => !isItsOwn(key))).toEqual(before.filter(([key]) => !isItsOwn(key)));
  expect(await other.shutDown()).toBe(75);
});
