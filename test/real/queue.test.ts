// Several machines on a real Redis: which tasks each takes, what a person can do with machines and submissions, and what is
// brought back when Redis has lost it.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { childrenOf, sidecarOf, until } from '../e2e/support.ts';
import { attemptsIn, STEPS } from '../many/support.ts';
import { type Lab, LOST_AFTER_MS, openLab } from './lab.ts';

let lab: Lab;
beforeEach(async () => {
  lab = await openLab();
});
afterEach(() => lab.close());

const sleepMs = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('several machines', () => {
  it('take only what they can, and begin what comes after when all before is done', async () => {
    await lab.submit('mesh', ['--array', '0-1', '-r', 'r', '--needs', 'mesher'], ['sh', '-c', 'echo m >r']);
    await lab.submit('solve', ['--array', '2-3', '-r', 'r', '--after', 'mesh'], ['sh', '-c', 'echo s >r']);
    const plain = lab.startMachine();
    await plain.worker.says('mesh is left to other workers');
    const { submissions, workers } = await lab.status();
    expect(submissions.map(({ name, state }) => [name, state])).toEqual([
      ['mesh', 'ready'],
      ['solve', 'after'],
    ]);
    expect(workers).toEqual([{ name: expect.stringContaining('.') as unknown, capabilities: [] }]);
    const shown = await lab.command('status');
    expect(shown.stdout()).toContain('no worker has mesher: mesh cannot begin');
    const able = lab.startMachine('--has', 'mesher');
    await lab.untilAll('over');
    expect(lab.place.text('r.3')).toBe('s\n');
    expect(await Promise.all([plain.shutDown(), able.shutDown()])).toEqual([75, 75]);
  });

  it('have one sidecar each, for all of their tasks', async () => {
    const go = path.join(lab.place.dir, 'go');
    const task = `echo {index} >r; until [ -e ${go} ]; do sleep 0.1; done`;
    await lab.submit('two', ['--array', '0-1', '-r', 'r'], ['sh', '-c', task]);
    const machine = lab.startMachine();
    await until(() => ['r.0', 'r.1'].every((key) => lab.place.keys().includes(key)), 'both are at work');
    const below = childrenOf(machine.worker.pid);
    const sidecar = sidecarOf(machine.worker.pid) ?? 0;
    expect(below).toHaveLength(3);
    for (const launcher of below.filter((pid) => pid !== sidecar))
      expect(sidecarOf(launcher)).toBeUndefined();
    process.kill(sidecar, 'SIGKILL');
    await until(() => ![undefined, sidecar].includes(sidecarOf(machine.worker.pid)), 'another one');
    fs.writeFileSync(go, '');
    await lab.untilAll('over');
    expect([...attemptsIn(lab.place, 'sh').values()]).toEqual([1, 1]);
    expect(await machine.shutDown()).toBe(75);
  });

  it('are frozen and paused under load, go on, are drained, and end when there is nothing to do', async () => {
    await lab.submit(
      'slow',
      ['--array', '0-7', '-r', 'result.dat', '-k', 'state.chk'],
      [STEPS, '{index}', '0.5'],
    );
    const machine = lab.startMachine();
    await lab.untilOne('slow', ({ running }) => running === 2);
    const frozen = await machine.command('pause', '--how', 'stop');
    expect(await frozen.status, frozen.stderr()).toBe(0);
    const before = await lab.status();
    await sleepMs(LOST_AFTER_MS * 1.5);
    // Its locks are renewed, and nothing ends.
    expect((await lab.status()).running).toEqual(before.running);
    expect(await (await machine.command('pause')).status).toBe(0);
    await lab.untilOne('slow', ({ running }) => running === 0);
    const resumed = await machine.command('resume');
    expect(await resumed.status, resumed.stderr()).toBe(0);
    await lab.untilAll('over');
    // What was given back went on from its checkpoint.
    const attempts = [...attemptsIn(lab.place, 'steps.sh').values()];
    expect(attempts.filter((count) => count === 2).length).toBe(2);
    const [only] = (await lab.status()).workers;
    const drained = await lab.command('drain', only?.name ?? '');
    expect(await drained.status, drained.stderr()).toBe(0);
    expect(await machine.worker.status, machine.worker.stderr()).toBe(0);
    expect(await lab.startMachine('--idle-timeout', '1s').worker.status).toBe(0);
  });

  it('retry what failed, and drop what is cancelled', async () => {
    const task = ['sh', '-c', `[ -e ${lab.place.dir}/mended ] && echo ok >r`];
    await lab.submit('broken', ['--array', '0-2', '-r', 'r', '--retries', '1'], task);
    const machine = lab.startMachine();
    await lab.untilAll('failed');
    const shown = await lab.command('status', 'broken');
    expect(await shown.status).toBe(1);
    const [, kept = ''] =
      /failed with exit status 1; kept on [^:]*: (\S+\.failed\.log)$/m.exec(shown.stdout()) ?? [];
    expect(fs.existsSync(kept), shown.stdout()).toBe(true);
    expect([...attemptsIn(lab.place, 'sh').values()]).toEqual([2, 2, 2]);
    fs.writeFileSync(path.join(lab.place.dir, 'mended'), '');
    expect(await (await lab.command('retry', 'broken')).status).toBe(0);
    await lab.untilAll('over');
    await lab.submit('endless', ['--array', '10-19', '-r', 'r'], ['sleep', '1000']);
    await lab.untilOne('endless', ({ running }) => running > 0);
    expect(await (await lab.command('cancel', 'endless')).status).toBe(0);
    const isCancelled = { state: 'cancelled', running: 0, waiting: 0 };
    await lab.untilOne(
      'endless',
      ({ state, running, waiting }) =>
        JSON.stringify({ state, running, waiting }) === JSON.stringify(isCancelled),
    );
    expect(await (await lab.command('cancel', 'endless')).status).toBe(0);
    expect((await lab.status()).submissions.map(({ name }) => name)).toEqual(['broken']);
    expect(await machine.shutDown()).toBe(75);
  });

  it('prepare once for each submission what its tasks use', async () => {
    const made = path.join(lab.place.dir, 'made');
    const script = String.raw`#!/bin/sh\necho "$1 of prepared" >r\n`;
    const prepare = `echo x >>${made}; printf '${script}' >task; chmod +x task`;
    const run = await lab.submit(
      'built',
      ['--array', '0-3', '-r', 'r', '--prepare', prepare],
      ['./task', '{index}'],
    );
    expect(await run.status, run.stderr()).toBe(0);
    const machine = lab.startMachine();
    await lab.untilAll('over');
    expect(lab.place.text('r.3')).toBe('3 of prepared\n');
    expect(fs.readFileSync(made, 'utf8')).toBe('x\n');
    expect(await machine.shutDown()).toBe(75);
    expect(machine.worker.stderr()).toMatch(/ 4 done here; [\d.]+ (B|KiB) stored/);
    // Of all that it made nothing is left.
    expect(fs.readdirSync(machine.scratch)).toEqual([]);
  });
});

it('a worker that cannot prepare is shown with its reason, while it is here', async () => {
  const options = ['--array', '0-1', '-r', 'r', '--prepare', 'echo no compiler; exit 3'];
  await lab.submit('built', options, ['./task']);
  const machine = lab.startMachine();
  await lab.untilStatus(({ unable }) => unable.length > 0);
  const why = '--prepare ended with exit status 3: no compiler';
  const [name] = (await lab.status()).workers.map((one) => one.name);
  expect((await lab.status()).unable).toEqual([{ submission: 'built', worker: name, why }]);
  expect((await lab.command('status')).stdout()).toContain(`\nbuilt cannot begin on ${name}: ${why}\n`);
  expect(await machine.shutDown()).toBe(75);
  expect((await lab.status()).unable).toEqual([]);
});

describe('a queue that Redis has lost', () => {
  it('is filled again by submit --again, and only with what is not done', async () => {
    const task = ['sh', '-c', 'echo {index} >r'];
    await lab.submit('some', ['--array', '0-1', '-r', 'r'], task);
    const first = lab.startMachine('--idle-timeout', '2s');
    expect(await first.worker.status, first.worker.stderr()).toBe(0);
    // As after a crash without an append-only file.
    lab.redis.cli('FLUSHALL');
    const again = await lab.submit('some', ['--array', '0-3', '-r', 'r', '--again'], task);
    expect(again.stderr()).toContain('2 of 4 tasks are in the queue, 2 are done');
    const second = lab.startMachine('--idle-timeout', '2s');
    expect(await second.worker.status, second.worker.stderr()).toBe(0);
    expect([...attemptsIn(lab.place, 'sh').values()]).toEqual([1, 1, 1, 1]);
  });

  it('is filled again under the workers that go on, and each index is done', async () => {
    const options = ['--array', '0-9', '-r', 'result.dat', '-k', 'state.chk'];
    const task = [STEPS, '{index}', '0.3'];
    await lab.submit('some', options, task);
    const machine = lab.startMachine();
    await until(() => lab.place.keys().some((key) => key.startsWith('result.dat')), 'one is done');
    await lab.redis.killAndRestart({ isEmpty: true });
    await machine.worker.says('is back');
    const again = await lab.submit('some', [...options, '--again'], task);
    expect(await again.status, again.stderr()).toBe(0);
    await lab.untilAll('over');
    expect(await machine.shutDown()).toBe(75);
  });

  it('of which jobs are gone comes back by itself when the rest is done', async () => {
    await lab.submit('some', ['--array', '0-3', '-r', 'r'], ['sh', '-c', 'echo {index} >r']);
    // Two jobs are gone, nobody knows.
    for (const id of ['i1', 'i2']) {
      lab.redis.cli('LREM', 'capture:lab:s.some:wait', '0', id);
      lab.redis.cli('DEL', `capture:lab:s.some:${id}`);
    }
    const machine = lab.startMachine();
    await lab.untilAll('over');
    expect(machine.worker.stderr()).toContain('2 of its tasks are neither done nor in the queue');
    expect(lab.place.text('r.2')).toBe('2\n');
    await machine.shutDown();
  });
});

it('a submission under a run id that comes twice runs nothing twice: each run looks at its own records', async () => {
  const options = ['--array', '0-1', '-r', 'r', '--run', 'r1'];
  const task = ['sh', '-c', 'echo {index} >r'];
  await lab.submit('some', options, task);
  const machine = lab.startMachine();
  await lab.untilAll('over');
  const again = await lab.submit('some', [...options, '--again'], task);
  expect(again.stderr()).toContain('2 of 2 tasks are in the queue');
  await lab.untilAll('over');
  expect([...attemptsIn(lab.place, 'sh').values()]).toEqual([1, 1]);
  expect(await machine.shutDown()).toBe(75);
});

describe('100,000 tasks', () => {
  it('are submitted, and all wait', async () => {
    const run = await lab.submit('many', ['--array', '0-99999', '-r', 'r'], ['true']);
    expect(await run.status, run.stderr()).toBe(0);
    expect((await lab.status()).submissions[0]?.waiting).toBe(100_000);
  });
});
