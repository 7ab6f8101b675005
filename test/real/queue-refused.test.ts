// A queue that cannot be used, and what no queue can take: one line says what is wrong and why, one what to try, and nothing is
// started or submitted. What a command line alone shows is tested in test/many/queue/lines.test.ts.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
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
  said(
    await lab.submit(
      name,
      ['-r', 'r', ...(options.includes('--array') ? [] : ['--array', '0-1']), ...options],
      TASK,
    ),
  );

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

it('refuses a submission after one that is cancelled, and says of an older one that it waits for ever', async () => {
  await submit('melt');
  await submit('solve', '--after', 'melt');
  expect(await said(await lab.command('cancel', 'melt'))).toMatch(
    /melt is cancelled; \d+ waiting tasks? dropped; nothing/,
  );
  expect(await submit('late', '--after', 'melt')).toMatch(
    /^64: .*--after melt: melt is cancelled, and will never be done\n *try: .*--again --name melt\n$/,
  );
  const shown = (await lab.command('status')).stdout();
  expect(shown).toMatch(/^melt +cancelled, \d+ dropped /m);
  expect(shown).toContain(
    'solve waits for melt, which is cancelled: submit it again with --again --name melt',
  );
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

describe('a worker with --idle-timeout', () => {
  it('that may not read the queue any more ends with 69 and the reason, and not as if nothing were left', async () => {
    await submit('melt');
    lab.redis.cli('ACL', 'SETUSER', 'default', '-eval', '-evalsha');
    const machine = lab.startMachine('--idle-timeout', '3s');
    expect(await machine.worker.status).toBe(69);
    const text = machine.worker.stderr();
    expect(text.match(/warning: the queue answers with an error: .*NOPERM/g)).toHaveLength(1);
    expect(text).toMatch(
      /this worker ends, because it could not see .*NOPERM.*\n *try: the user must be allowed/,
    );
    expect(text).not.toContain('nothing was left');
    const shown = await lab.command('status');
    expect(shown.stderr()).toMatch(/the queue answers with an error: .*NOPERM.*\n *try: the user must be/);
    lab.redis.cli('ACL', 'SETUSER', 'default', '+@all');
    expect((await lab.status()).submissions).toMatchObject([{ name: 'melt', waiting: 2 }]);
  });

  it('ends also when the server stops answering', async () => {
    const machine = lab.startMachine('--idle-timeout', '5s');
    await machine.worker.says('work directories in');
    lab.redis.freeze();
    expect(await machine.worker.status).toBe(69);
    expect(machine.worker.stderr()).toContain('no answer within 10 s');
  });
});

it.each([
  ['itself', 'submissions:s.bad'],
  ['with its jobs', 's.bad:wait'],
])('leaves out a submission with a key of a wrong type: the key of it %s', async (_, key) => {
  await submit('bad');
  await submit('melt');
  lab.redis.cli('DEL', `capture:lab:${key}`);
  lab.redis.cli('SET', `capture:lab:${key}`, 'x');
  const machine = lab.startMachine('--idle-timeout', '3s');
  expect(await machine.worker.status, machine.worker.stderr()).toBe(0);
  expect(machine.worker.stderr()).toMatch(
    /bad is left to other workers: .*WRONGTYPE.*\n *try: .*redis-cli TYPE/,
  );
  expect(machine.worker.stderr()).toContain('2 done here');
  const shown = await lab.command('status');
  expect(shown.stdout()).toContain('bad: cannot be read: a key of it has another type');
  expect(shown.stdout()).toMatch(/melt .*done/);
});

it('takes the other jobs if the key of one has a wrong type, and names it', async () => {
  await submit('melt', '--array', '0-3');
  const [first = ''] = lab.redis.cli('LRANGE', 'capture:lab:s.melt:wait', '-1', '-1').split('\n');
  lab.redis.cli('DEL', `capture:lab:s.melt:${first}`);
  lab.redis.cli('SET', `capture:lab:s.melt:${first}`, 'x');
  await submit('other');
  const machine = lab.startMachine();
  await machine.worker.says('other: all are done');
  await machine.worker.says('WRONGTYPE');
  expect(await machine.shutDown()).toBe(75);
  expect(machine.worker.stderr()).toContain('5 done here');
});
