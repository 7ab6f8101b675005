// Checkpoint objects that a killed attempt had sent and never recorded: a later one that is done takes them away,
// and nothing else.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { killTree, openPlace, until, type Place } from './support.ts';

let place: Place;
beforeEach(async () => {
  place = openPlace();
  const run = place.run([...OPTIONS, '--reclaim', 'never'], sh('echo 1 > k.chk; echo a > log; sleep 600'));
  await until(() => place.records().some(({ name }) => name.endsWith('.checkpoint')), 'a generation');
  killTree(run.pid);
  await run.status;
  const made = place.records().at(-1)?.record.runToken ?? '';
  for (const key of STRAYS) await put(key, made);
  for (const key of OTHERS) await put(key, key === FOREIGN ? 'of another run' : made);
});
afterEach(() => place.close());

const OPTIONS = ['-k', 'k.chk', '-k', 'all.*', '--companions', 'log', '-r', 'r.dat', '--task-name', 't'];
const sh = (script: string): string[] => ['sh', '-c', script];

const STRAYS = ['k.chk.t.0.1-7', 'k.chk.t.0.1-8.zst', 'log.t.0.1-7.9', 'all.1.t.0.1-7'];
/** `k.chk` of the task `t`, by its name; but the object is of a task that is called otherwise. */
const FOREIGN = 'k.chk.t.0.1-9';
const OTHERS = [
  FOREIGN,
  'k.chk.t.0.3-1', // a later attempt
  'k.chk.t.1.1-7', // another index
  'k.chk.u.0.1-7', // another task
  'k.chk.t.0.1-7.9', // no companion
  'log.t.0.1-7', // no checkpoint
  'k.chk.t.0.1-7.old',
  'other.chk.t.0.1-7', // not declared
];
/** As an attempt of this run would have sent it. */
async function put(key: string, run: string): Promise<void> {
  const store = await openStore({ url: `file://${place.store}`, flags: [], unfenced: false });
  await store.put(key, Buffer.from('bytes'), { meta: { push: key, run } });
}
const found = (): readonly string[] => place.keys().filter((key) => STRAYS.includes(key));

describe('what a killed attempt had sent and never recorded', () => {
  it('is deleted by the next one that is done, and nothing else is', async () => {
    const run = place.run(OPTIONS, sh('echo 2 > k.chk; echo 2 > all.1; echo b >> log; echo r > r.dat'));
    expect(await run.status, run.stderr()).toBe(0);
    expect(found()).toEqual([]);
    expect(place.keys()).toEqual(expect.arrayContaining([...OTHERS, 'r.dat.0']));
    const generations = place.records().at(-1)?.record.generations ?? [];
    expect(generations.map(({ attempt }) => attempt)).toEqual([2, 1]);
    const named = generations.flatMap(({ members, companions }) => [
      ...members,
      ...companions.flatMap(({ segments }) => segments),
    ]);
    expect(place.keys()).toEqual(expect.arrayContaining(named.map(({ key }) => key)));
    expect(run.stderr()).toContain('deleted 4 objects that killed attempts had sent');
  });

  it('is deleted, too, if it is a result in the form in which it is not stored any more', async () => {
    const made = place.records().at(-1)?.record.runToken ?? '';
    await put('r.dat.0', made);
    const run = place.run(OPTIONS, sh('seq 9999 > r.dat'));
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.keys()).toContain('r.dat.0.zst');
    expect(place.keys()).not.toContain('r.dat.0');
  });

  it('is no result, though one may be called as a checkpoint is', async () => {
    const options = ['-k', 'x', '-r', 'x*', '--task-name', 't', '--index', '1', '--run', 'names'];
    const first = place.run(options, sh('echo 1 > x; echo 2 > x.t.1.1-1'));
    expect(await first.status, first.stderr()).toBe(0);
    expect(place.keys()).toContain('x.t.1%2E1-1.1');
    const second = place.run(options, sh('true'));
    expect(await second.status, second.stderr()).toBe(0);
    expect(place.keys()).toContain('x.t.1%2E1-1.1');
  });

  it('stays when the attempt is not done', async () => {
    expect(await place.run(OPTIONS, sh('echo 2 > k.chk; exit 3')).status).toBe(3);
    expect(found()).toEqual(STRAYS.toSorted());
  });

  it('stays when a record cannot be read, which may name it', async () => {
    const dir = `${place.store}/.capture/t/0`;
    for (const name of fs.readdirSync(dir)) {
      if (!name.startsWith('0001-000000')) fs.writeFileSync(`${dir}/${name}`, 'damaged');
    }
    const run = place.run([...OPTIONS, '--no-restore'], sh('echo 2 > k.chk'));
    expect(await run.status, run.stderr()).toBe(0);
    expect(found()).toEqual(STRAYS.toSorted());
  });
});
