// A queue that cannot be used, and what no queue can take: one line says what is wrong and why, one what to try, and nothing is
// started or submitted. What a command line alone shows is tested in test/many/queue/lines.test.ts.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Run } from '../e2e/support.ts';
import { type Lab, openLab } from './lab.ts';

let lab: Lab;
beforeEach(async () => {
  lab = await openLab();
});
afterEach(() => lab.close());

const TASK = ['sh', '-c', 'echo {index} >r'];

/** What it says, with its status. */
async function said(run: Run): Promise<string> {
  const status = await run.status;
  return `${status}: ${run.stderr().replaceAll(/^\S+ /gm, '')}`;
}

const worker = (url: string): Promise<string> =>
  said(lab.place.capture(['worker', '--queue', url, '--notice=none']));
const submit = async (name: string, ...options: readonly string[]): Promise<string> =>
  said(await lab.submit(name, ['--array', '0-1', '-r', 'r', ...options], TASK));

it('tells of a server that cannot be reached', async () => {
  expect(await worker('redis://127.0.0.1:1/lab')).toMatch(
    /^69: capture: cannot use the queue redis:\/\/127\.0\.0\.1:1\/lab: .*ECONNREFUSED.*\n *try: is the server running.*\n$/,
  );
});

it('tells of a password that is missing or wrong, and shows none', async () => {
  lab.redis.cli('CONFIG', 'SET', 'requirepass', 'secret');
  expect(await worker(lab.redis.url('lab'))).toMatch(/^69: .*NOAUTH.*\n *try: give user and password.*\n$/);
  const wrong = await worker(lab.redis.url('lab').replace('//', '//:wr0ng@'));
  expect(wrong).toMatch(/^69: .*WRONGPASS.*\n *try: give user and password.*\n$/);
  expect(wrong).not.toContain('wr0ng');
  const right = lab.place.capture(['queue', 'status', ...lab.queue], { REDISCLI_AUTH: 'secret' });
  expect(await right.status, right.stderr()).toBe(0);
  expect(right.stdout()).toContain('the queue is empty');
});

it('tells of a server that may delete jobs', async () => {
  lab.redis.cli('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
  const expected =
    /^69: capture: the queue .* may lose what is in it: its maxmemory-policy is allkeys-lru\n *try: redis-cli CONFIG SET maxmemory-policy noeviction.*\n$/;
  expect(await worker(lab.redis.url('lab'))).toMatch(expected);
  expect(await submit('melt')).toMatch(expected);
  expect(lab.redis.cli('DBSIZE')).toBe('0');
});

it('tells of another format in the queue: submit refuses, workers leave it alone', async () => {
  await submit('melt');
  lab.redis.cli('HSET', 'capture:lab:submissions:s.melt', 'data', JSON.stringify({ format: 2 }));
  expect(await submit('other')).toMatch(
    /^64: capture: .* is used by a later version of capture: its format is 2, and this capture reads 1\n *try: update capture here.*\n$/,
  );
  const shown = await lab.command('status');
  expect(await shown.status).toBe(1);
  expect(shown.stdout()).toContain('melt: cannot be read: its format is 2');
  expect(await said(await lab.command('cancel', 'melt'))).toMatch(
    /^64: capture: melt in .* cannot be read: its format is 2, .*\n *try: .*\n$/,
  );
  const machine = lab.startMachine('--idle-timeout', '2s');
  expect(await machine.worker.status).toBe(0);
  expect(machine.worker.stderr()).toContain('melt is left to other workers: its format is 2');
  expect(fs.existsSync(lab.place.store)).toBe(false);
});

it('tells of a name that is taken, and of a submission or a worker that is not there', async () => {
  await submit('melt');
  expect(await submit('melt')).toMatch(/^64: capture: melt is in .* already\n *try: another --name.*\n$/);
  expect(await submit('next', '--after', 'melr')).toMatch(/^64: .*no submission melr .*\n *try: melt\n$/);
  expect(await said(await lab.command('retry', 'melr'))).toMatch(
    /^64: .*no submission melr .*\n *try: melt\n$/,
  );
  expect(await said(await lab.command('drain', 'node3.1'))).toMatch(
    /^64: .*no worker node3\.1 .*\n *try: .*\n$/,
  );
  expect((await lab.status()).submissions.map(({ name }) => name)).toEqual(['melt']);
});

it('tells of a capability that no worker has, and begins nothing of it', async () => {
  const machine = lab.startMachine('--has', 'gpu');
  await machine.worker.says('work directories in');
  expect(await submit('melt', '--needs', 'gpuu')).toMatch(
    /^0: capture: melt: 2 of 2 tasks submitted\n.*: no worker has gpuu: melt waits for one\n *try: --needs gpu, .*\n$/,
  );
  expect((await lab.status()).submissions).toMatchObject([{ name: 'melt', waiting: 2, running: 0 }]);
  expect(await machine.shutDown()).toBe(75);
});
