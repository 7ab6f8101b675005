// The clock for all waits. It runs evenly, as the timers of Node do, even if the time of day is set (an NTP step,
// daylight saving by hand). Launcher and sidecar share it.
import { CLOCK_VARIABLE } from '../model/format/shared-sidecar.ts';
import { libcFunction } from './libc.ts';

/** CLOCK_MONOTONIC (clock_gettime(2)): the same for all processes of the machine. */
function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}

const clockGettime = libcFunction<[number, BigInt64Array]>('int clock_gettime(int, void*)');
const CLOCK_THREAD_CPUTIME_ID = 3;

/** The CPU time of the calling thread, ms (clock_gettime(2)): it stands still while others have the core. */
export function threadCpuMs(): number {
  const time = new BigInt64Array(2);
  clockGettime(CLOCK_THREAD_CPUTIME_ID, time);
  return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
}

let offsetMs = Date.now() - monotonicMs();

/** Ms since the epoch, if the time of day had not been set since the run began. */
export function clockMs(): number {
  return Math.round(monotonicMs() + offsetMs);
}

/** For {@link adoptClock} in another process of this run. */
export function clockOffsetMs(): number {
  return offsetMs;
}

/** Sets this clock to that of another process: the {@link clockOffsetMs} of that process. */
export function adoptClock(offset: number): void {
  offsetMs = offset;
}

/** Adopts the runner's clock if there is a runner: all of its processes share one clock. */
export function adoptRunnersClock(env: NodeJS.ProcessEnv): void {
  const offset = Number(env[CLOCK_VARIABLE] ?? NaN);
  if (Number.isFinite(offset)) adoptClock(offset);
}

/** Ms since this time of day. */
export function ageMs(atMs: number): number {
  return Date.now() - atMs;
}

/** Converts a time of day that others have given to this clock. */
export function fromTimeOfDay(atMs: number): number {
  return atMs - Date.now() + clockMs();
}

/** The longest delay of a Node timer: 2^31 - 1 ms, some 24 days (Node, "Timers"). */
export const LONGEST_MS = 2 ** 31 - 1;

export interface LongTimer {
  cancel(): void;
}

/** Calls `act` once after `ms`, however long that is: a Node timer beyond {@link LONGEST_MS} fires at once. */
export function startTimer(ms: number, act: () => void): LongTimer {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const next = leftMs > LONGEST_MS ? (): void => arm(leftMs - LONGEST_MS) : act;
    timer = setTimeout(next, Math.min(Math.max(0, leftMs), LONGEST_MS)).unref();
  };
  arm(ms);
  return { cancel: () => clearTimeout(timer) };
}
