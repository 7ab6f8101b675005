// What the tests of files that stay open share: the program that keeps them, and many deaths of it in a row.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { childrenOf, killTree, program, sidecarOf, type Place, type Run } from './support.ts';

export const LOGS = ['log.txt', 'traj.bin', 'ener.txt'];
export const OPTIONS = ['-k', 'state.cpt', ...LOGS.flatMap((name) => ['--companions', name]), '--keep'];
/** More than the program gets through before it is left alone. */
const STEPS = 12_000;
/** Between two steps, ms. */
export const PACE_MS = 5;
/** An attempt dies within so long after its start, or after its first checkpoint. */
const LIFE_MS = 400;

/** Command line of the program; without a pause it is done at once. */
export function openLogs(pauseMs: number): string[] {
  return [process.execPath, program('open-logs.mjs'), String(STEPS), String(pauseMs)];
}

/** How the attempts end, one after the other, with these statuses. */
export const DEATH_STATUSES = [137, 137, 75] as const;
const DEATHS: readonly ((run: Run) => void)[] = [
  (run) => killTree(run.pid),
  (run) => process.kill(taskOf(run.pid), 'SIGKILL'),
  (run) => process.kill(run.pid, 'SIGTERM'),
];

function taskOf(launcher: number): number {
  return childrenOf(launcher).find((pid) => pid !== sidecarOf(launcher)) ?? -1;
}

export interface Ended {
  /** The checkpoint's step from which each attempt went on. */
  readonly steps: readonly number[];
  /** Exit status of each attempt; 3 is the program's own when a log is shorter than its checkpoint says. */
  readonly statuses: readonly number[];
  /** By name the bytes of the logs at the end. */
  readonly logs: ReadonlyMap<string, Buffer>;
}

/**
 * Kills the program `kills` times, at moments that `seed` chooses, each time resumes it in an empty work
 * directory, and lets it end.
 */
export async function resumeUntilDone(place: Place, kills: number, seed: number): Promise<Ended> {
  const random = numbersFrom(seed);
  const steps: number[] = [];
  const statuses: number[] = [];
  for (let kill = 0; kill < kills; kill += 1) {
    const run = place.run(OPTIONS, openLogs(PACE_MS));
    await run.says(/from \d+/);
    // Some die before their first checkpoint is safe, most of them later.
    if (kill % 4 !== 0) await run.says('is safe');
    await pause(random() * LIFE_MS);
    DEATHS[kill % DEATHS.length]?.(run);
    statuses.push(await run.status);
    steps.push(fromOf(run));
    place.freshWork();
  }
  const last = place.run(OPTIONS, openLogs(0));
  statuses.push(await last.status);
  steps.push(fromOf(last));
  return { steps, statuses, logs: logsIn(place) };
}

/** What one run makes that nobody interrupts. */
export function uninterrupted(place: Place): ReadonlyMap<string, Buffer> {
  place.freshWork();
  const [command = '', ...args] = openLogs(0);
  execFileSync(command, args, { cwd: place.work });
  return logsIn(place);
}

function fromOf(run: Run): number {
  return Number(/from (\d+)/.exec(run.stdout())?.[1]);
}

function logsIn(place: Place): ReadonlyMap<string, Buffer> {
  return new Map(LOGS.map((name) => [name, fs.readFileSync(place.at(name))]));
}

function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
