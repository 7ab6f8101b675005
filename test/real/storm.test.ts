// A preemption storm: one LAMMPS task that is killed up to nineteen times at random moments, with two seconds of notice
// or with none, each time with its machine, ends with the bits of an uninterrupted run; and no attempt computes
// more again than what came after the last checkpoint.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { killTree } from '../e2e/support.ts';
import { realStore } from './bucket.ts';
import { seeded } from './crash/sweep.ts';
import { contentOf, openObjects } from './objects.ts';
import { TELL_ALL, told } from '../support/messages.ts';

const CAPTURE = path.resolve('bin/capture');
const STARTS = 20;
const EVERY = 100;
const CHECKPOINTS = 90;
const TOTAL = CHECKPOINTS * EVERY;
const GRACE_MS = 2000;
const ENDED_WITHIN_MS = 30_000;
const env = { ...process.env, TOTAL: String(TOTAL), EVERY: String(EVERY) };

let root: string;
let reference: string;
let running: ChildProcess | undefined;

beforeAll(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), 'storm-'));
  reference = await freshWorkdir('reference');
  await promisify(execFile)('./run.sh', { cwd: reference, env });
});
afterAll(() => rm(root, { recursive: true, force: true }));
afterEach(() => {
  if (running?.pid !== undefined) killTree(running.pid);
});

/** The input tells each step at once, and has so many atoms that 19 attempts seldom end it. */
async function freshWorkdir(name: string): Promise<string> {
  const dir = await mkdtemp(path.join(root, `${name}-`));
  const from = (file: string): string => path.join(import.meta.dirname, 'lammps', file);
  const input = (await readFile(from('in.melt'), 'utf8'))
    .replace(/^thermo .*$/m, 'thermo 1\nthermo_modify flush yes')
    .replace(/^(variable +cells +index) \d+/m, '$1 10');
  await writeFile(path.join(dir, 'in.melt'), input);
  await copyFile(from('run.sh'), path.join(dir, 'run.sh'));
  return dir;
}

/** Steps that an attempt has computed, by LAMMPS's own log; its first line of thermo is the step it began with. */
async function stepsIn(workdir: string): Promise<number> {
  const log = ['log.lammps.0', 'log.lammps.1']
    .map((name) => path.join(workdir, name))
    .find((file) => existsSync(file));
  if (log === undefined) return 0;
  const lines = (await readFile(log, 'utf8')).split('\n').slice(0, -1);
  const steps = lines.flatMap((line) => /^ *(\d+) +[-\d.]/.exec(line)?.[1] ?? []).map(Number);
  return steps.length === 0 ? 0 : Math.max(...steps) - Math.min(...steps);
}

function startAttempt(workdir: string, url: string) {
  const files = ['-r', 'frame.*.dump', '-r', 'final.data', '-k', 'melt.chk', '-i', 'in.melt', '-i', 'run.sh'];
  const args = ['--to', url, ...files, ...TELL_ALL, '--grace', `${GRACE_MS}ms`, '--', './run.sh'];
  const capture = spawn(CAPTURE, args, { cwd: workdir, env, stdio: ['ignore', 'ignore', 'pipe'] });
  running = capture;
  let said = '';
  capture.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  const ended = once(capture, 'close').then(([code, signal]: unknown[]) => code ?? signal);
  return { capture, ended, said: () => said, commits: () => told(said, 'checkpoint').length };
}

/** At the latest two checkpoints after the start; often before the first, while the attempt still begins. */
async function randomMoment(attempt: ReturnType<typeof startAttempt>, random: () => number): Promise<void> {
  const commits = Math.floor(random() * 3);
  const endMs = Date.now() + ENDED_WITHIN_MS;
  while (attempt.commits() < commits && attempt.capture.exitCode === null) {
    if (Date.now() > endMs) throw new Error(`no checkpoint ${commits}; capture said:\n${attempt.said()}`);
    await pause(10);
  }
  await pause(random() * (commits === 0 ? 2000 : 500));
}

/** The machine goes away: with a notice the launcher is told 2 s before. */
async function takeAway(attempt: ReturnType<typeof startAttempt>, notice: boolean): Promise<void> {
  if (notice) {
    attempt.capture.kill('SIGTERM');
    await Promise.race([attempt.ended, pause(GRACE_MS)]);
  }
  const { pid, exitCode } = attempt.capture;
  if (pid !== undefined && exitCode === null) killTree(pid);
  await attempt.ended;
}

it(`ends whole when it is started up to ${STARTS} times, and computes little twice`, async () => {
  const seed = Number(process.env['CAPTURE_TEST_SEED'] ?? Date.now() % 2 ** 31);
  const random = seeded(seed);
  const url = `${realStore().url}/${path.basename(root)}`;
  let computed = 0;
  let killed = 0;
  let starts = 0;
  let isDone = false;
  while (!isDone) {
    starts += 1;
    const workdir = await freshWorkdir(`machine-${starts}`);
    const attempt = startAttempt(workdir, url);
    if (starts < STARTS) {
      await randomMoment(attempt, random);
      const notice = random() < 0.5;
      await takeAway(attempt, notice);
      killed += notice ? 0 : 1;
    }
    const status = await attempt.ended;
    // On a fast machine it is done before its last death was due.
    isDone = status === 0;
    // A notice may come before capture has begun with anything: then it ends as any program.
    const isBegun = attempt.said() !== '';
    const wanted = starts < STARTS ? [0, 75, 'SIGKILL', ...(isBegun ? [] : ['SIGTERM'])] : [0];
    expect(wanted, `seed ${seed}, start ${starts}:\n${attempt.said()}`).toContain(status);
    computed += await stepsIn(workdir);
    await rm(workdir, { recursive: true });
  }
  const line = `storm: seed ${seed}, ${starts} starts, ${killed} without notice: ${computed} steps for ${TOTAL}`;
  process.stderr.write(`${line}\n`);
  expect(starts, line).toBeGreaterThan(STARTS / 4);

  const objects = openObjects(url);
  try {
    const names = (await readdir(reference)).filter((name) => /^(frame\..*\.dump|final\.data)$/.test(name));
    expect(names).toHaveLength(CHECKPOINTS + 2);
    for (const name of names) {
      const same = (await contentOf(objects, `${name}.0`)).equals(await readFile(path.join(reference, name)));
      expect(same, `seed ${seed}: ${name} equals the reference`).toBe(true);
    }
  } finally {
    objects.close();
  }
  expect(computed, line).toBeGreaterThanOrEqual(TOTAL);
  expect(computed, line).toBeLessThanOrEqual(TOTAL + STARTS * (EVERY + 1));
});
