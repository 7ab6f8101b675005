// The clock of everything that waits: it goes on evenly, whatever is done to the time of day (an NTP step, a
// daylight saving by hand), as the timers of Node do. Launcher and sidecar read the same one.
import { CLOCK_VARIABLE } from '../model/format/shared-sidecar.ts';

/** CLOCK_MONOTONIC (clock_gettime(2)): one for all processes of the machine. */
function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}

let offsetMs = Date.now() - monotonicMs();

/** Ms since the epoch, by the time of day at which the run began. */
export function clockMs(): number {
  return Math.round(monotonicMs() + offsetMs);
}

/** What {@link adoptClock} needs in another process of this run. */
export function clockOffsetMs(): number {
  return offsetMs;
}

/** Instants that the launcher names are instants here, too. */
export function adoptClock(offset: number): void {
  offsetMs = offset;
}

/** The runner's clock, if there is a runner: all of its processes have one clock. */
export function adoptRunnersClock(env: NodeJS.ProcessEnv): void {
  const offset = Number(env[CLOCK_VARIABLE] ?? NaN);
  if (Number.isFinite(offset)) adoptClock(offset);
}

/** How long ago it is that the time of day was this one, ms. */
export function ageMs(atMs: number): number {
  return Date.now() - atMs;
}

/** An instant that somebody else names by the time of day, on this clock. */
export function fromTimeOfDay(atMs: number): number {
  return atMs - Date.now() + clockMs();
}

/** The longest delay of a Node timer, which takes 32 bits of milliseconds (Node, "Timers"). */
export const LONGEST_MS = 2 ** 31 - 1;

export interface LongTimer {
  cancel(): void;
}

/** Calls `act` once after `ms`, however long that is: a Node timer of more than 24 days fires at once. */
export function startTimer(ms: number, act: () => void): LongTimer {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const next = leftMs > LONGEST_MS ? (): void => arm(leftMs - LONGEST_MS) : act;
    timer = setTimeout(next, Math.min(Math.max(0, leftMs), LONGEST_MS)).unref();
  };
  arm(ms);
  return { cancel: () => clearTimeout(timer) };
}
