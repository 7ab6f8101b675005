// `--max-load`: is the machine busy enough without one more task? Pure.

/** The kernel's average decays with this time (kernel/sched/loadavg.c). */
const AVERAGE_OVER_MS = 60_000;

/**
 * True if no task may start, since the load has reached `maxLoad`. The kernel's average of one minute lags behind
 * (proc(5), /proc/loadavg): of a process that began a minute ago it knows 63 %. What it does not know yet of the tasks
 * that run, since `startedMs`, is added; or all of them would start at once on a machine that was idle.
 */
export function isTooBusy(
  maxLoad: number,
  load: { readonly average1m: number; readonly startedMs: readonly number[]; readonly nowMs: number },
): boolean {
  const { average1m, startedMs, nowMs } = load;
  const unknown = startedMs.reduce(
    (sum, at) => sum + Math.exp(-Math.max(0, nowMs - at) / AVERAGE_OVER_MS),
    0,
  );
  return average1m + unknown >= maxLoad;
}
