// A real computation on a real store that fails for longer than any request is tried: busy (503) for 70 s while
// it runs, and refused for 30 s when it is started again. Nothing may be lost, and nothing sent twice.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { realStore } from './bucket.ts';
import { contentOf, openObjects, type Objects } from './objects.ts';

const CAPTURE = path.resolve('bin/capture');
const INPUTS = ['in.melt', 'run.sh'] as const;
/** Longer than one request is tried (a minute), so that pushes fail and have to be made again. */
const STORM_MS = 70_000;
const REFUSED_MS = 30_000;
const steps = { TOTAL: '4000', EVERY: '500' };

let root: string;
let proxy: FaultProxy;
let objects: Objects;
let running: ChildProcess | undefined;

beforeEach(async () => {
  const { AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL } = process.env;
  root = await mkdtemp('/dev/shm/capture-outage-');
  proxy = await startFaultProxy(AWS_ENDPOINT_URL_S3 ?? AWS_ENDPOINT_URL ?? '');
  objects = openObjects(url());
});
afterEach(async () => {
  running?.kill('SIGKILL');
  objects.close();
  await proxy.stop();
  await rm(root, { recursive: true, force: true });
});

const url = (): string => `${realStore().url}/${path.basename(root)}`;

async function freshWorkdir(): Promise<string> {
  const dir = await mkdtemp(path.join(root, 'work-'));
  const from = path.join(import.meta.dirname, 'lammps');
  await Promise.all(INPUTS.map((input) => copyFile(path.join(from, input), path.join(dir, input))));
  return dir;
}

/** Starts an attempt of the same task whose requests go through the proxy; `ended` is its status and words. */
function start(workdir: string, command: readonly string[]) {
  const declared = [
    ['--results', 'frame.*.dump', '--results', 'final.data', '--results', 'log.lammps.*'],
    ['--checkpoints', 'melt.chk', '--task-name', 'melt'],
  ].flat();
  const capture = spawn(CAPTURE, ['--to', url(), ...declared, '--', ...command], {
    cwd: workdir,
    env: { ...process.env, ...steps, AWS_ENDPOINT_URL: proxy.url, AWS_ENDPOINT_URL_S3: proxy.url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  running = capture;
  const output = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    capture[name].setEncoding('utf8').on('data', (text: string) => (output[name] += text));
  const ended = once(capture, 'close').then(([code, signal]) => ({ status: code ?? signal, ...output }));
  const says = async (text: string): Promise<void> => {
    while (!output.stderr.includes(text)) {
      if (capture.exitCode !== null)
        throw new Error(`ended without saying "${text}"; it said:\n${output.stderr}`);
      await pause(20);
    }
  };
  return { ended, says };
}

/** Every object of the task with its bytes' ETag and time: what a restart may not touch. */
async function dataOf(): Promise<ReadonlyMap<string, string>> {
  return new Map([...(await objects.versions())].filter(([key]) => !key.startsWith('.capture/')));
}

it('LAMMPS loses nothing in a storm of 503, and a restart before a store that is refused uploads nothing', async () => {
  const reference = await freshWorkdir();
  await promisify(execFile)('./run.sh', { cwd: reference, env: { ...process.env, ...steps } });

  const first = start(await freshWorkdir(), ['./run.sh']);
  await first.says('is safe');
  proxy.fault = { kind: 'busy' };
  await first.says('the store does not work: ');
  await pause(STORM_MS);
  expect(proxy.hits).toBeGreaterThan(10);
  proxy.fault = undefined;
  const stormy = await first.ended;
  expect(stormy.status, stormy.stderr).toBe(0);
  expect(stormy.stderr).toMatch(/the store works again, after 1 min|the store works again, after \d+ s/);
  expect(stormy.stderr).not.toContain('NOT stored');
  const expected = (await readdir(reference)).filter((name) => /^(frame\..*\.dump|final\.data)$/.test(name));
  for (const name of expected) {
    const whole = await readFile(path.join(reference, name));
    expect((await contentOf(objects, `${name}.0`)).equals(whole), name).toBe(true);
  }
  const stored = await dataOf();
  expect(stored.size).toBeGreaterThan(expected.length);

  proxy.fault = { kind: 'refuse' };
  const secondDir = await freshWorkdir();
  const second = start(secondDir, ['sh', '-c', 'echo "from $CAPTURED_RESTORED"; cmp melt.chk reference.chk']);
  await copyFile(path.join(reference, 'melt.chk'), path.join(secondDir, 'reference.chk'));
  await second.says('waiting for it, the task is not started yet');
  await pause(REFUSED_MS);
  proxy.fault = undefined;
  const restarted = await second.ended;
  expect(restarted.status, restarted.stderr).toBe(0);
  expect(restarted.stdout).toMatch(/^from 1-\d+\n$/);
  expect(restarted.stderr).toContain('the store works again');
  expect(await dataOf()).toEqual(stored);
}, 420_000);
