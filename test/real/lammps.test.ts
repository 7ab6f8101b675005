// Real LAMMPS, killed at half of its run and run again on nothing but its inputs: what the two attempts
// stored must be, bit for bit, what one uninterrupted run makes.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { realStore } from './bucket.ts';
import { contentOf, openObjects } from './objects.ts';

const CAPTURE = path.resolve('bin/capture');
const INPUTS = ['in.melt', 'run.sh'] as const;
const STEPS = { total: 6000, every: 500 } as const;
const INDEX = '3';
const HALF_BOUND_MS = 120_000;
const env = { ...process.env, TOTAL: String(STEPS.total), EVERY: String(STEPS.every) };

let root: string;
let reference: string;
let running: ChildProcess | undefined;

beforeAll(async () => {
  root = await mkdtemp('/dev/shm/capture-lammps-');
  reference = await freshWorkdir('reference');
  await promisify(execFile)('./run.sh', { cwd: reference, env });
});
afterAll(() => rm(root, { recursive: true, force: true }));
afterEach(() => running?.kill('SIGKILL'));

async function freshWorkdir(name: string): Promise<string> {
  const dir = await mkdtemp(path.join(root, `${name}-`));
  await Promise.all(
    INPUTS.map((input) => copyFile(path.join(import.meta.dirname, 'lammps', input), path.join(dir, input))),
  );
  return dir;
}

/** Starts one attempt; `ended` answers with its exit status and what capture said. */
function startAttempt(workdir: string, storeUrl: string) {
  const declared = [
    ['--results', 'frame.*.dump'],
    ['--results', 'final.data'],
    ['--results', 'log.lammps.*'],
    // Each attempt has a log of its own: it counts as far as it was written.
    ['--companions', 'log.lammps.*'],
    ['--checkpoints', 'melt.chk'],
    ...INPUTS.map((input) => ['--inputs', input]),
  ].flat();
  const capture = spawn(
    CAPTURE,
    ['--to', storeUrl, '--index', INDEX, ...declared, '--grace', '60s', '--', './run.sh'],
    { cwd: workdir, env, stdio: ['ignore', 'inherit', 'pipe'] },
  );
  running = capture;
  let said = '';
  capture.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(capture, 'close').then(([code, signal]) => ({ status: code ?? signal, said }));
  return { capture, ended, said: () => said };
}

/** Waits until a frame past half of the run is closed: the one after it exists. */
async function pastHalf(workdir: string, attempt: ReturnType<typeof startAttempt>): Promise<void> {
  const next = path.join(workdir, `frame.${STEPS.total / 2 + 2 * STEPS.every}.dump`);
  const endMs = Date.now() + HALF_BOUND_MS;
  while (!existsSync(next)) {
    if (attempt.capture.exitCode !== null || Date.now() > endMs) {
      throw new Error(`half of the run was not reached; capture said:\n${attempt.said()}`);
    }
    await pause(20);
  }
}

const stores = [
  { name: 'the file store', url: () => pathToFileURL(path.join(root, 'store')).href },
  { name: 'Ceph RGW', url: () => `${realStore().url}/${path.basename(root)}` },
];

describe.each(stores)('LAMMPS on $name', ({ url }) => {
  it('ends, killed at half and run again, with the files of an uninterrupted run', async () => {
    const firstDir = await freshWorkdir('first');
    const first = startAttempt(firstDir, url());
    await pastHalf(firstDir, first);
    first.capture.kill('SIGTERM');
    const preempted = await first.ended;
    expect(preempted.status, `capture said:\n${preempted.said}`).toBe(75);
    expect(existsSync(path.join(firstDir, 'final.data'))).toBe(false);
    // The machine is gone, and with it everything that is only there.
    await rm(firstDir, { recursive: true });

    const secondDir = await freshWorkdir('second');
    const finished = await startAttempt(secondDir, url()).ended;
    expect(finished.status, `capture said:\n${finished.said}`).toBe(0);

    const objects = openObjects(url());
    try {
      const keys = await objects.keys();
      const expected = (await readdir(reference)).filter((name) =>
        /^(frame\..*\.dump|final\.data)$/.test(name),
      );
      expect(expected).toHaveLength(STEPS.total / STEPS.every + 2);
      for (const name of expected) {
        const stored = await contentOf(objects, `${name}.${INDEX}`);
        expect(
          stored.equals(await readFile(path.join(reference, name))),
          `${name} equals the reference`,
        ).toBe(true);
      }

      // run.sh names the log after the way it began: fresh (0), then resumed (1). Death closed the first.
      const resumed = await contentOf(objects, `log.lammps.1.${INDEX}`);
      expect(resumed.toString()).toContain('Reading restart file');
      const log = await contentOf(objects, `log.lammps.0.${INDEX}`);
      expect(log.toString()).not.toContain('Total wall time');

      const newest = keys.filter((key) => key.startsWith(`melt.chk.run.sh.${INDEX}.2-`)).map(withoutEnding);
      const contents = await Promise.all(newest.map((key) => contentOf(objects, key)));
      const checkpoint = await readFile(path.join(reference, 'melt.chk'));
      expect(contents.some((content) => content.equals(checkpoint))).toBe(true);

      expect(keys.filter((key) => key.startsWith('traj.'))).toEqual([]);
      expect(keys.filter((key) => key.endsWith('.done.json'))).toHaveLength(1);
    } finally {
      objects.close();
    }
  });
});

function withoutEnding(key: string): string {
  return key.replace(/\.zst$/, '');
}
