// An attempt that only stalled wakes up when a higher one has run: it may become nothing, replace nothing for
// good and delete nothing that the higher one lives on. The strict server holds a request of it in mid-air.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import fs from 'node:fs';
import { decompress } from 'zstd-napi';
import type { IfMatch, Operation } from '../s3-server/operations.ts';
import { startS3Server, type S3Server } from '../s3-server/server.ts';
import { childrenOf, noise, openPlace, until, type Place, type Run } from './support.ts';

let server: S3Server;
let place: Place;
let prefix = 0;
const open: (() => void)[] = [];
beforeAll(async () => {
  server = await startS3Server();
});
afterAll(() => server.stop());
beforeEach(() => {
  place = openPlace();
  prefix += 1;
  server.fault = () => undefined;
  server.ifMatch = 'honoured';
});
afterEach(() => {
  for (const letGo of open.splice(0)) letGo();
  place.close();
});

const at = (key: string): string => `run${prefix}/${key}`;
const run = (options: readonly string[], script: string): Run => {
  const to = ['--to', `s3://${server.bucket}/run${prefix}`, '--path-style', '--task-name', 't'];
  return place.capture([...to, ...options, '--', 'sh', '-c', script], server.env);
};
const text = (key: string): string | undefined => {
  const bytes = server.versions(at(key)).at(-1)?.bytes;
  if (bytes === undefined) return undefined;
  return (key.endsWith('.zst') ? Buffer.from(decompress(bytes)) : bytes).toString();
};
const records = (attempt: number): readonly string[] =>
  server.keys().filter((key) => key.startsWith(at(`.capture/t/0/000${attempt}-`)));

interface Held {
  readonly came: () => boolean;
  readonly letGo: () => void;
}

/** Holds the first such request before its work is done. */
function hold(operation: Operation, key: RegExp): Held {
  let came = false;
  let letGo = (): void => undefined;
  const until = new Promise<void>((resolve) => (letGo = resolve));
  open.push(letGo);
  server.fault = (incoming) => {
    if (came || incoming.operation !== operation || !key.test(incoming.key)) return undefined;
    came = true;
    return { kind: 'delay', until };
  };
  return { came: () => came, letGo };
}

/** As a machine that is suspended: nothing of the run makes a step until it is continued. */
function suspend(launcher: number): () => void {
  const pids = membersOf(launcher);
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  const wake = (): void => {
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGCONT');
      } catch {
        // It ended meanwhile.
      }
    }
  };
  open.push(wake);
  return wake;
}

function membersOf(pid: number): readonly number[] {
  return [pid, ...childrenOf(pid).flatMap(membersOf)];
}

const served = (operation: Operation, key: RegExp): number =>
  server.served.filter(
    (request) => request.operation === operation && key.test(request.key) && request.status > 0,
  ).length;

const refused = (key: RegExp): number =>
  server.served.filter((request) => key.test(request.key) && [404, 412].includes(request.status)).length;

describe('an attempt that stalled and wakes up', () => {
  it.each<[IfMatch, Operation]>([
    ['honoured', 'PutObject'],
    ['refused', 'CompleteMultipartUpload'],
    ['ignored', 'CompleteMultipartUpload'],
  ])('in the middle of a put replaces nothing, where If-Match is %s', async (ifMatch, operation) => {
    server.ifMatch = ifMatch;
    const twice =
      'echo first > r.dat; while [ ! -e go ]; do :; done; echo old > r.dat; while :; do sleep 1; done';
    const zombie = run(['-r', 'r.dat'], twice);
    await until(() => text('r.dat.0') === 'first\n', 'the first put of attempt 1');
    const put = hold(operation, /r\.dat\.0$/);
    fs.writeFileSync(place.at('go'), '');
    await until(put.came, 'the put of attempt 1');
    const wake = suspend(zombie.pid);
    place.freshWork();
    // Its result is stored and recorded; then the old put arrives, and only then does its task end.
    const second = run(
      ['-r', 'r.dat', '--reclaim', 'now'],
      'echo new > r.dat; while [ ! -e go ]; do sleep 0.1; done',
    );
    await until(() => text('r.dat.0') === 'new\n', 'the put of attempt 2');
    const before = refused(/r\.dat\.0$/);
    put.letGo();
    await until(() => refused(/r\.dat\.0$/) > before, 'the put of attempt 1 to be refused');
    fs.writeFileSync(place.at('go'), '');
    expect(await second.status, second.stderr()).toBe(0);
    wake();
    expect(await zombie.status, zombie.stderr()).toBe(76);
    expect(text('r.dat.0')).toBe('new\n');
    expect(records(2).at(-1)).toContain('.done.json');
  });

  it('in the middle of a put over what the higher attempt made again is repaired from the local file, which waits for it', async () => {
    const twice =
      'echo same > r.dat; while [ ! -e go ]; do :; done; echo old > r.dat; while :; do sleep 1; done';
    const zombie = run(['-r', 'r.dat', '--reclaim', 'now'], twice);
    await until(() => records(1).some(isStored), 'the record of attempt 1');
    const put = hold('PutObject', /r\.dat\.0$/);
    fs.writeFileSync(place.at('go'), '');
    await until(put.came, 'the second put of attempt 1');
    const wake = suspend(zombie.pid);
    place.freshWork();
    // The same bytes as recorded: nothing is sent, and with --reclaim now the local file could go at once.
    const again =
      'echo same > r.dat; sleep 3; echo 1 > s1.dat; sleep 1; echo 2 > s2.dat; while [ ! -e go ]; do sleep 0.1; done';
    const second = run(['-r', 'r.dat', '-r', 's*.dat', '--reclaim', 'now'], again);
    // Looked at after 2 s, as it would replace something. What may go after a record is gone before the next one.
    await until(() => records(2).filter(isStored).length === 2, 'two records of attempt 2');
    put.letGo();
    await until(() => text('r.dat.0') === 'old\n', 'the put of attempt 1 to take place');
    fs.writeFileSync(place.at('go'), '');
    expect(await second.status, second.stderr()).toBe(0);
    expect(text('r.dat.0')).toBe('same\n');
    wake();
    expect(await zombie.status, zombie.stderr()).toBe(76);
    expect(text('r.dat.0')).toBe('same\n');
  });

  it('before it completes a multipart upload finds the upload gone', async () => {
    fs.writeFileSync(place.at('seed'), noise(12 * 2 ** 20, 3));
    const completion = hold('CompleteMultipartUpload', /big\.0$/);
    // A rename is no death's: it is sent under its own name at once.
    const zombie = run(['-r', 'big'], 'cp seed tmp; mv tmp big; while :; do sleep 1; done');
    await until(completion.came, 'the completion of attempt 1');
    const wake = suspend(zombie.pid);
    place.freshWork();
    const second = run(['-r', 'big'], 'echo new > big');
    expect(await second.status, second.stderr()).toBe(0);
    const before = served('CompleteMultipartUpload', /big\.0$/);
    completion.letGo();
    await until(() => served('CompleteMultipartUpload', /big\.0$/) > before, 'the answer to attempt 1');
    expect(text('big.0')).toBe('new\n');
    wake();
    expect(await zombie.status, zombie.stderr()).toBe(76);
    expect(server.versions(at('big.0'))).toHaveLength(1);
  });

  it('before it commits a checkpoint never makes it the newest one', async () => {
    const forever = 'while [ ! -e go ]; do :; done; echo late > k.chk; while :; do sleep 1; done';
    const zombie = run(['-k', 'k.chk'], `echo one > k.chk; ${forever}`);
    await until(() => text('k.chk.t.0.1-1') === 'one\n' && records(1).some(isCheckpoint), 'checkpoint 1-1');
    const member = hold('PutObject', /k\.chk\.t\.0\.1-2$/);
    fs.writeFileSync(place.at('go'), '');
    await until(member.came, 'the member of checkpoint 1-2');
    const wake = suspend(zombie.pid);
    place.freshWork();
    const second = run(['-k', 'k.chk'], 'cat k.chk; echo two > k.chk');
    expect(await second.status, second.stderr()).toBe(0);
    expect(second.stdout()).toBe('one\n');
    member.letGo();
    wake();
    expect(await zombie.status, zombie.stderr()).toBe(76);
    expect(server.keys().findLast((key) => key.startsWith(at('.capture/')))).toMatch(/0002-\d+\.done\.json$/);
    place.freshWork();
    const third = run(['-k', 'k.chk'], 'cat k.chk');
    expect(await third.status, third.stderr()).toBe(0);
    expect(third.stdout()).toBe('two\n');
  });

  it('between a commit and the deletions after it deletes nothing', async () => {
    const first =
      'echo one > k.chk; while [ ! -e go ]; do :; done; echo two > k.chk; while :; do sleep 1; done';
    const zombie = run(['-k', 'k.chk', '--generations', '1'], first);
    await until(() => records(1).some(isCheckpoint), 'checkpoint 1-1');
    // The record of checkpoint 1-2 is on its way: attempt 2 does not see it, and restores 1-1.
    const record = hold('PutObject', /\/0001-\d+\.checkpoint\.json$/);
    fs.writeFileSync(place.at('go'), '');
    await until(record.came, 'the record of checkpoint 1-2');
    place.freshWork();
    const second = run(
      ['-k', 'k.chk', '--generations', '1'],
      'cat k.chk; while [ ! -e go ]; do sleep 0.1; done',
    );
    await second.says('one');
    record.letGo();
    expect(await zombie.status, zombie.stderr()).toBe(76);
    expect(text('k.chk.t.0.1-1')).toBe('one\n');
    fs.writeFileSync(place.at('go'), '');
    expect(await second.status, second.stderr()).toBe(0);
  });
});

function isStored(key: string): boolean {
  return key.endsWith('.stored.json');
}

function isCheckpoint(key: string): boolean {
  return key.endsWith('.checkpoint.json');
}
