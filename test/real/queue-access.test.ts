// A server that wants more than an address: TLS with a certificate of one's own, a Unix socket, and a user who may do
// nothing but what a queue needs.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { NOBODY, programForAll } from '../support/other-user.ts';
import { BIN, openPlace, type Place, type Run } from '../e2e/support.ts';
import { freePort, openRedis, type RedisServer } from './redis.ts';

let place: Place;
let redis: RedisServer | undefined;
beforeEach(() => {
  place = openPlace({ below: '/dev/shm' });
});
afterEach(async () => {
  await redis?.close();
  redis = undefined;
  place.close();
});

/** Of two tasks that are submitted, and that a worker runs; they hear nothing of the queue. */
async function resultBy(queue: string): Promise<string> {
  const env = { CAPTURE_QUEUE: queue };
  const submission = ['--to', place.store, '--name', 'melt', '--array', '0-1', '-r', 'r'];
  const task = ['sh', '-c', 'if env | grep -e CAPTURE_QUEUE -e s3cret; then exit 9; fi; echo {index} >r'];
  for (const words of [
    ['submit', ...submission, '--', ...task],
    ['worker', '--notice=none', '--idle-timeout=1s'],
    ['queue', 'status'],
  ]) {
    const run = place.capture(words, env);
    expect(await run.status, run.stderr()).toBe(0);
  }
  return place.text('r.1');
}

it('speaks TLS, and trusts only who is named', async () => {
  const [key, certificate] = [path.join(place.dir, 'key.pem'), path.join(place.dir, 'cert.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const files = ['-keyout', key, '-out', certificate];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject, ...files], {
    stdio: 'ignore',
  });
  const port = String(await freePort());
  const tls = ['--tls-port', port, '--tls-cert-file', certificate, '--tls-key-file', key];
  redis = await openRedis(place.dir, [...tls, '--tls-auth-clients', 'no']);
  expect(await resultBy(`rediss://localhost:${port}/lab?ca=${certificate}`)).toBe('1\n');

  const refusal = async (queue: string): Promise<string> => {
    const run = place.capture(['queue', 'status', '--queue', queue]);
    return `${await run.status}: ${run.stderr()}`;
  };
  expect(await refusal(`rediss://localhost:${port}/lab`)).toMatch(
    /^69: .*self-signed certificate\n *try: name the certificates to trust: rediss:.*\?ca=/,
  );
  expect(await refusal(`rediss://127.0.0.1:${port}/lab?ca=${certificate}`)).toMatch(
    /^69: .*127\.0\.0\.1.*\n *try: name the server as its certificate does/,
  );
  expect(await refusal(`redis://localhost:${port}/lab`)).toMatch(/^69: .*\n *try: does it want TLS\?/);
  expect(await refusal(redis.url('lab').replace('redis', 'rediss'))).toMatch(
    /^69: .*\n *try: does it speak TLS there\?/,
  );
});

it('finds a server at its Unix socket', async () => {
  const socket = path.join(place.dir, 'redis.sock');
  redis = await openRedis(place.dir, ['--unixsocket', socket]);
  expect(await resultBy(`redis+unix://${socket}?name=lab&db=3`)).toBe('1\n');
});

it('needs a user who may do no more than docs/several-machines.md says', async () => {
  redis = await openRedis(place.dir);
  const rights = '~capture:* &* +@all -@dangerous +info +client';
  redis.cli('ACL', 'SETUSER', 'cap', 'on', '>s3cret', ...rights.split(' '));
  expect(await resultBy(redis.url('lab').replace('//', '//cap:s3cret@'))).toBe('1\n');
});

it('gives its password to no process that it starts, as a task of the same user can look into each', async () => {
  redis = await openRedis(place.dir, ['--requirepass', 's3cret']);
  fs.chmodSync(place.dir, 0o777);
  fs.chmodSync(place.work, 0o777);
  // To root nothing is closed.
  const asUser =
    process.getuid?.() === 0 ? `setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups` : 'env';
  const program = programForAll(BIN, place.dir);
  const env = {
    CAPTURE_QUEUE: redis.url('lab'),
    REDISCLI_AUTH: 's3cret',
    XDG_RUNTIME_DIR: place.dir,
    HOME: place.dir,
    OF_THE_WORKER: 'yes',
  };
  const environmentTo = (name: string): string => `env >${place.dir}/${name}.env`;
  const capture = (...words: readonly string[]): Run =>
    place.exec([...asUser.split(' '), program, ...words], env);
  const look = `for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ; done 2>/dev/null >seen`;
  const task = ['sh', '-c', `${look}; grep -c CAPTURED_RUN= seen >r; ! grep s3cret seen`];
  const submit = capture(
    'submit',
    '--to',
    place.store,
    '--name',
    'melt',
    '--array',
    '0-1',
    '-r',
    'r',
    '--prepare',
    environmentTo('prepare'),
    '--notify',
    environmentTo('notify'),
    '--',
    ...task,
  );
  expect(await submit.status, submit.stderr()).toBe(0);
  const ends = ['--idle-timeout=1s', '--on-end', environmentTo('on-end')];
  const worker = capture('worker', '--notice=none', `--scratch=${place.dir}`, ...ends);
  expect(await worker.status, worker.stderr()).toBe(0);
  // It has looked into those of its own run.
  expect(Number(place.text('r.1'))).toBeGreaterThan(0);
  for (const name of ['prepare', 'notify', 'on-end']) {
    const text = fs.readFileSync(path.join(place.dir, `${name}.env`), 'utf8');
    expect(text, name).toContain('OF_THE_WORKER=yes');
    expect(text, name).not.toMatch(/s3cret|CAPTURE_QUEUE/);
  }
  const records = place.records().map(({ record }) => record.kind);
  expect(records.filter((kind) => kind === 'done')).toHaveLength(2);
});
