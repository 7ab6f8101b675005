// `capture array` as a user runs it, with what the store and the job log say of it.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { processesWithEnvironment } from '../../src/native/processes.ts';
import { childrenOf, type Place, type Run, sidecarOf, until } from '../e2e/support.ts';

/** A task of six steps with a checkpoint after each (fixtures/steps.sh). */
export const STEPS = fileURLToPath(new URL('fixtures/steps.sh', import.meta.url));

/** What an uninterrupted run of it makes. */
export function resultOf(index: number): string {
  return Array.from({ length: 50 }, (_, n) => `${index} ${n} ${(index * n) % 97}\n`).join('');
}

/** Below the place's own directory, which goes with it. */
export function scratchOf(place: Place): string {
  const dir = path.join(place.dir, 'scratch');
  fs.mkdirSync(dir, { recursive: true });
  return dir;
}

export function array(place: Place, options: readonly string[], task: readonly string[] = []): Run {
  const command = task.length === 0 ? [] : ['--', ...task];
  return place.capture([
    'array',
    '--to',
    place.store,
    `--scratch=${scratchOf(place)}`,
    ...options,
    ...command,
  ]);
}

/** Of the job log, in the order of the ends. */
export interface Start {
  readonly index: number;
  readonly fromS: number;
  readonly toS: number;
  readonly status: number;
  readonly signal: number;
}

export function startsIn(joblog: string): readonly Start[] {
  const [, ...lines] = fs.readFileSync(joblog, 'utf8').trim().split('\n');
  return lines.map((line) => {
    const [index, , from, runtime, , , status, signal] = line.split('\t').map(Number);
    return {
      index: index ?? -1,
      fromS: from ?? 0,
      toS: (from ?? 0) + (runtime ?? 0),
      status: status ?? -1,
      signal: signal ?? -1,
    };
  });
}

/** The most that ran at the same time. */
export function mostAtOnce(starts: readonly Start[]): number {
  return Math.max(
    ...starts.map(({ fromS }) => starts.filter((one) => one.fromS <= fromS && fromS < one.toS).length),
  );
}

/** The names in the directory of a run; none once it is removed. */
export function leftIn(place: Place): readonly string[] {
  return fs.readdirSync(scratchOf(place)).flatMap((run) => fs.readdirSync(path.join(scratchOf(place), run)));
}

/** Processes of a task and its launcher. */
export function processesOf(place: Place, index: number): readonly number[] {
  return fs
    .readdirSync(scratchOf(place))
    .flatMap((run) => processesWithEnvironment(`CAPTURED_TASK_LOG=${scratchOf(place)}/${run}/${index}.log`));
}

/** Of the only task that runs. */
export function launcherOf({ pid }: Run): number {
  const [launcher, ...others] = childrenOf(pid).filter((child) => child !== sidecarOf(pid));
  if (launcher === undefined || others.length > 0) throw new Error('not exactly one task runs');
  return launcher;
}

export async function noneRuns(place: Place, indices: readonly number[]): Promise<void> {
  await until(
    () => indices.every((index) => processesOf(place, index).length === 0),
    'all processes have ended',
  );
}

/** By index how many attempts have begun. */
export function attemptsIn(place: Place, taskName: string): ReadonlyMap<number, number> {
  const dir = path.join(place.store, '.capture', taskName);
  return new Map(
    fs
      .readdirSync(dir)
      .map((index) => [
        Number(index),
        fs.readdirSync(path.join(dir, index)).filter((name) => name.endsWith('-000000.started.json')).length,
      ]),
  );
}
