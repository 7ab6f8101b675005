// The example of LAMMPS, preempted at half of its run and run again: what the two attempts stored must be, bit for bit, what
// one uninterrupted run makes.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { realStore } from './bucket.ts';
import { contentOf, openObjects } from './objects.ts';

const CAPTURE = path.resolve('bin/capture');
const RUN = path.resolve('examples/lammps/run.sh');
const INPUT = path.resolve('examples/slurm/in.melt');
const STEPS = { total: 6000, every: 500 } as const;
const INDEX = '3';
const HALF_BOUND_MS = 120_000;
const LENGTH = ['-var', 'total', String(STEPS.total), '-var', 'every', String(STEPS.every)];
const env = {
  ...process.env,
  PATH: `${path.dirname(CAPTURE)}:${process.env['PATH']}`,
  CAPTURE_INDEX: INDEX,
  CAPTURE_GRACE: '60s',
  OMP_NUM_THREADS: '1',
  OMPI_MCA_btl: 'self,vader',
  OMPI_MCA_plm: 'isolated',
};

const execute = promisify(execFile);

let root: string;
let reference: string;
let running: ChildProcess | undefined;

beforeAll(async () => {
  root = await mkdtemp('/dev/shm/capture-lammps-');
  reference = path.join(root, 'reference');
  await mkdir(reference);
  await execute('lmp', ['-in', INPUT, '-screen', 'none', ...LENGTH], { cwd: reference, env });
});
afterAll(() => rm(root, { recursive: true, force: true }));
afterEach(() => running?.kill('SIGKILL'));

/** Starts one attempt; `ended` answers with its exit status and what capture said. */
function startAttempt(storeUrl: string) {
  const capture = spawn(RUN, LENGTH, {
    cwd: root,
    env: { ...env, STORE: storeUrl, TMPDIR: root },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  running = capture;
  let said = '';
  capture.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(capture, 'close').then(([code, signal]) => ({ status: code ?? signal, said }));
  return { capture, ended, said: () => said };
}

/** Waits until a frame past half of the run is closed: the one after it exists. */
async function pastHalf(attempt: ReturnType<typeof startAttempt>): Promise<void> {
  const next = `frame.${STEPS.total / 2 + 2 * STEPS.every}.dump`;
  const workdir = (): string => /; in (\/.*?);/.exec(attempt.said())?.[1] ?? '';
  const endMs = Date.now() + HALF_BOUND_MS;
  while (!existsSync(path.join(workdir(), next))) {
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
    await execute(CAPTURE, ['put', INPUT, url()], { cwd: path.dirname(INPUT), env });
    const first = startAttempt(url());
    await pastHalf(first);
    first.capture.kill('SIGTERM');
    const preempted = await first.ended;
    expect(preempted.status, `capture said:\n${preempted.said}`).toBe(75);

    const finished = await startAttempt(url()).ended;
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

      // One log of both attempts, with the rows of each step.
      const log = (await contentOf(objects, `melt.log.${INDEX}`)).toString();
      expect(log).toMatch(/^Created \d+ atoms$.*^Reading restart file.*^Total wall time/ms);
      expect(new Set(rowsOf(log))).toEqual(
        new Set(rowsOf(await readFile(path.join(reference, 'melt.log'), 'utf8'))),
      );

      const newest = keys.filter((key) => key.startsWith(`melt.chk.melt.${INDEX}.2-`)).map(withoutEnding);
      const contents = await Promise.all(newest.map((key) => contentOf(objects, key)));
      const checkpoint = await readFile(path.join(reference, 'melt.chk'));
      expect(contents.some((content) => content.equals(checkpoint))).toBe(true);

      expect(keys.filter((key) => key.endsWith('.done.json'))).toHaveLength(1);
    } finally {
      objects.close();
    }
  });
});

/** The rows of steps, without the pressure and later columns. */
function rowsOf(log: string): readonly string[] {
  return [...log.matchAll(/^ +\d+ +-?[\d.]+ +-?[\d.]+ /gm)].map(([row]) => row);
}

function withoutEnding(key: string): string {
  return key.replace(/\.zst$/, '');
}
