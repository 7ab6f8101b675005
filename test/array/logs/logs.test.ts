// `capture logs` as a user calls it, on what real runs have stored.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openS3Place, type S3Place } from '../../e2e/s3-place.ts';
import { BIN, killTree, openPlace, type Place, type Run, until } from '../../e2e/support.ts';
import { readFound } from '../../e2e/store-files.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['--index', '3', '--task-name', 't', '--log-output', '--companion-interval', '1s'];

/** A run whose output goes where the test says: `>out 2>&1`. */
function run(where: string, script: string, to = place.store, env: NodeJS.ProcessEnv = {}): Run {
  const words = [BIN, '--to', to, '--path-style', ...OPTIONS, '--', 'sh', '-c', script];
  const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
  return place.exec(['sh', '-c', `exec ${quoted} ${where}`], env);
}

const out = (): string => `${place.dir}/out`;
const err = (): string => `${place.dir}/err`;
const apart = (): string => `>${out()} 2>${err()}`;

async function logs(args: readonly string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  const asked = place.capture(['logs', place.store, ...args]);
  const status = await asked.status;
  return { status, stdout: asked.stdout(), stderr: asked.stderr() };
}

describe('capture logs', () => {
  it('prints what the newest attempt wrote, as it stood in its file', async () => {
    await run(`>${out()} 2>&1`, 'echo first; exit 1').status;
    await run(`>${out()} 2>&1`, 'seq 1 20000; echo done >&2').status;
    const { status, stdout } = await logs(['3']);
    expect(status).toBe(0);
    expect(stdout).toContain(Array.from({ length: 20_000 }, (_, n) => `${n + 1}\n`).join(''));
    expect(stdout).toContain('done\n');
    expect(fs.readFileSync(out(), 'utf8')).toContain(stdout);
    expect((await logs(['--index', '3', '--attempt', '1'])).stdout).toContain('first\n');
  });

  it('prints one stream after the other, or the one that is asked for', async () => {
    await run(apart(), 'echo oops >&2; echo result').status;
    const both = await logs(['3']);
    expect(both.stdout.startsWith('result\n')).toBe(true);
    expect(both.stdout).toContain('oops\n');
    expect(both.stderr).toMatch(/stdout:[^]*stderr:/);
    expect(await logs(['3', '--stream', 'stdout'])).toMatchObject({ stdout: 'result\n', stderr: '' });
  });

  it('prints what a machine that is gone has left', async () => {
    const killed = run(apart(), 'echo before; sleep 600');
    await until(() => readFound(place.store).some((key) => key.includes('.stdout.')), 'the first segment');
    killTree(killed.pid);
    await killed.status;
    expect((await logs(['3', '--stream', 'stdout'])).stdout).toBe('before\n');
  });

  it('needs no index where only one is stored, and asks which where several are', async () => {
    await run(`>${out()} 2>&1`, 'echo of 3').status;
    expect(await logs([])).toMatchObject({ status: 0, stdout: expect.stringContaining('of 3\n') });
    await place.run(['--task-name', 't', '--index', '0'], ['true']).status;
    const asked = await logs([]);
    expect(asked).toMatchObject({ status: 64, stdout: '' });
    expect(asked.stderr).toContain(`several indices of t are stored under file://${place.store}\n`);
    expect(asked.stderr).toContain('try: say which, after the <url>: 0; capture status');
    expect(await logs(['--task-name', 'u'])).toMatchObject({ status: 66, stdout: '' });
  });

  it('ends with 66 where nothing is stored, and says how to store it', async () => {
    await place.run(['--task-name', 't', '--index', '3'], ['true']).status;
    const { status, stdout, stderr } = await logs(['3']);
    expect({ status, stdout }).toEqual({ status: 66, stdout: '' });
    expect(stderr).toContain('no output of index 3 of task t is stored under');
    expect(stderr).toContain('--log-output');
  });

  it('ends with 66 and says why, if the index, the attempt or the stream is none that there is', async () => {
    await run(`>${out()} 2>&1`, 'echo x').status;
    const index = await logs(['4']);
    expect(index).toMatchObject({ status: 66, stdout: '' });
    expect(index.stderr).toContain('nothing is stored of index 4 of t');
    const attempt = await logs(['3', '--attempt', '2']);
    expect(attempt).toMatchObject({ status: 66, stdout: '' });
    expect(attempt.stderr).toContain('try: its attempts are 1 to 1');
    const stream = await logs(['3', '--stream', 'stderr']);
    expect(stream).toMatchObject({ status: 66, stdout: '' });
    expect(stream.stderr).toContain('try: leave out --stream: its stdout and stderr are one file');
  });

  it('is no task of its own for the other commands', async () => {
    await run(apart(), 'echo x').status;
    const asked = place.capture(['status', place.store]);
    expect(await asked.status).toBe(0);
    expect(asked.stdout()).toContain('1 done');
  });

  it('refuses an attempt that is no number', async () => {
    expect((await logs(['3', '--attempt', 'x'])).status).toBe(64);
  });
});

it('capture logs --follow prints what comes until the attempt has ended, each byte once', async () => {
  const task = run(apart(), 'echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 7');
  await until(() => readFound(place.store).some((key) => key.includes('.stdout.')), 'the first segment');
  const following = place.capture(['logs', place.store, '3', '--follow', '--stream', 'stdout']);
  await following.says('one\n');
  fs.writeFileSync(place.at('go'), '');
  expect(await task.status).toBe(7);
  expect(await following.status).toBe(0);
  expect(following.stdout()).toBe('one\ntwo\n');
  expect(following.stderr()).toContain('attempt 1 has ended: failed');
});

it('capture logs --follow waits for the first output of an attempt that runs', async () => {
  const task = run(apart(), 'until [ -e go ]; do sleep 0.05; done; echo one');
  // It also says so while there is something of the other stream only: what capture itself says.
  await until(() => readFound(place.store).some((key) => key.includes('.stderr.')), 'a segment of stderr');
  const following = place.capture(['logs', place.store, '3', '--follow', '--stream', 'stdout']);
  await following.says('attempt 1 has stored no stdout yet');
  fs.writeFileSync(place.at('go'), '');
  expect(await task.status).toBe(0);
  expect(await following.status).toBe(0);
  expect(following.stdout()).toBe('one\n');
});

describe('on a bucket', () => {
  let bucket: S3Place;
  beforeEach(async () => {
    bucket = await openS3Place();
  });
  afterEach(() => bucket.close());

  it('needs one listing for the task, one for the index, and a request for each segment', async () => {
    const { server } = bucket;
    const env = { ...server.env, AWS_CONFIG_FILE: '/dev/null', AWS_SHARED_CREDENTIALS_FILE: '/dev/null' };
    const url = `s3://${server.bucket}/run`;
    expect(await run(apart(), 'echo hello', url, env).status).toBe(0);
    const before = server.served.length;
    const asked = place.capture(['logs', url, '3', '--path-style', '--stream', 'stdout'], env);
    expect(await asked.status).toBe(0);
    expect(asked.stdout()).toBe('hello\n');
    expect(server.served.slice(before).map(({ operation }) => operation)).toEqual([
      'ListObjectsV2',
      'ListObjectsV2',
      'GetObject',
    ]);
  });
});
