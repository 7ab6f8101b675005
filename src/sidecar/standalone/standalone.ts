// `capture watch`: the sidecar beside a task that somebody else runs. It runs until it is stopped, or until
// `--exit-file` says how the task ended. Without that its last record is `ended`, never `done`.
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../log/log.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../../model/exit-status.ts';
import { WRAPPER_DELAY_MS } from '../../model/file/suspect.ts';
import type { Settings } from '../../model/format/settings.ts';
import { formatMs } from '../../model/units.ts';
import { newDeferred } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import { openStops, type Stops } from '../../native/stops.ts';
import type { Opened, Sidecar } from '../interface.ts';
import type { RunEnd } from '../shutdown/outcome.ts';
import { openSidecar } from '../sidecar.ts';
import { attemptLeft } from '../startup/handover.ts';
import { type ExitFile, openExitFile, type TaskStatus } from './exit-file.ts';
import { openWatchNotices, type WatchNotices } from './watch-notices.ts';

/** The task's share of `--grace` if both are stopped at once; the rest is for the drain. */
const TASK_SHARE = 2 / 3;
/** If it is stopped while it still opens, it has this share of `--grace` to become able to drain. */
const OPENING_SHARE = 1 / 2;
/** If task and watch are stopped at once, the task may get the signal this much earlier, and die of it. */
const EARLIER_MS = 20;
/** On a busy node, the processes of a container that is killed end one after the other, within this time. */
const DYING_MS = 1000;
/** From the end of the task's container to the signal for a native sidecar: the kubelet looks once a second. */
const OURS_NEXT_MS = 5000;

/** Resolves to the exit status once everything is stored, or cannot be stored in the time that is left. */
export async function runStandalone(settings: Settings, log: Log): Promise<ExitStatus> {
  const stops = openStops();
  const warn = (message: string, hint: string): void => log.warn(message, { hint });
  const exitFile = settings.exitFile === undefined ? undefined : openExitFile(settings.exitFile, warn);
  const notices = openWatchNotices(settings, log);
  const fenced = newDeferred<string>();
  try {
    const opened = await open({
      settings,
      log,
      stops,
      notices,
      exitFile,
      onFenced: fenced.resolve,
    });
    if (opened.kind === 'done-already') return EXIT.ok;
    const { sidecar } = opened;
    notices.listen(sidecar);
    const end = await taskEnd({ settings, log, sidecar, stops, notices, exitFile, fenced: fenced.promise });
    // Each further signal says that the time is short.
    stops.onEach(({ atMs }) => sidecar.noticed(atMs + settings.graceMs));
    const { status, last } = await sidecar.finish(end);
    await notices.done();
    await sidecar.close();
    const { attempt, endedAs } = sidecar;
    if (endedAs === undefined) log[last.level](last.text, last.fields);
    else log.info(`attempt ${attempt} has ended (${endedAs}): nothing is left to watch`, { event: 'end' });
    return status;
  } finally {
    exitFile?.close();
    notices.close();
    stops.close();
  }
}

interface Opening {
  readonly settings: Settings;
  readonly log: Log;
  readonly stops: Stops;
  readonly notices: WatchNotices;
  readonly exitFile: ExitFile | undefined;
  readonly onFenced: (message: string) => void;
}

/** Continues the attempt that was left for it; else begins one of its own. */
async function open({ settings, log, stops, notices, exitFile, onFenced }: Opening): Promise<Opened> {
  const giveUp = new AbortController();
  let fencedBy: string | undefined;
  let timer: NodeJS.Timeout | undefined;
  const hearNoMore = stops.onEach(({ signal, number }) => {
    const why = new CaptureError(statusOfSignal(number), `${signal} came before anything was watched`, {
      hint: 'the files in the work directory are not stored',
    });
    timer ??= setTimeout(() => giveUp.abort(why), settings.graceMs * OPENING_SHARE);
  });
  const begin = (attempt: number | undefined): Promise<Opened> =>
    openSidecar({
      settings,
      attempt,
      standalone: true,
      hasEnded: exitFile?.isThere,
      log,
      giveUp: giveUp.signal,
      onFenced: (message) => {
        fencedBy = message;
        onFenced(message);
      },
      onDrainTakes: notices.drainTakes,
    });
  try {
    const left = attemptLeft(settings);
    const opened = await begin(left);
    if (opened.kind !== 'open' || opened.sidecar.endedAs === undefined) return opened;
    // Only the task itself can say that it has ended and is not running again.
    if (opened.sidecar.endedAs !== 'ended' && exitFile?.look() === true) return opened;
    await opened.sidecar.close();
    return await begin(undefined);
  } catch (error) {
    if (giveUp.signal.aborted) throw giveUp.signal.reason;
    if (fencedBy === undefined) throw error;
    throw new CaptureError(EXIT.fenced, fencedBy, { hint: 'do not run it again', cause: error });
  } finally {
    hearNoMore();
    clearTimeout(timer);
  }
}

const NOBODY_KNOWS: RunEnd = {
  end: undefined,
  preempted: false,
  signalledAtMs: undefined,
  deadlineMs: undefined,
};

const HOW_TO_SAY = "let the task's shell write it: ./task; echo $? > status.new; mv status.new <path>";

interface Waiting {
  readonly settings: Settings;
  readonly log: Log;
  readonly sidecar: Sidecar;
  readonly stops: Stops;
  readonly notices: WatchNotices;
  readonly exitFile: ExitFile | undefined;
  readonly fenced: Promise<string>;
}

/** Waits for the end of the task, or of the time that is left. */
async function taskEnd(waiting: Waiting): Promise<RunEnd> {
  const { settings, log, sidecar, stops, notices, exitFile, fenced } = waiting;
  if (sidecar.endedAs !== undefined) return NOBODY_KNOWS;
  const said = exitFile?.said ?? new Promise<never>(() => undefined);
  const why = await Promise.race([said, stops.first, notices.takenAway, fenced]);
  if (typeof why === 'string') {
    log.error(why, { event: 'fenced' });
    return { ...NOBODY_KNOWS, deadlineMs: clockMs() + settings.graceMs };
  }
  if ('status' in why) return endFromFile(why.status, waiting);
  // Nobody said how the task ended, and nobody will.
  if ('what' in why)
    return { ...NOBODY_KNOWS, preempted: true, reason: why.what, deadlineMs: why.deadlineMs };
  const deadlineMs = Math.min(why.atMs + settings.graceMs, notices.deadlineMs ?? Infinity);
  if (exitFile === undefined) return { ...NOBODY_KNOWS, signalledAtMs: why.atMs - EARLIER_MS, deadlineMs };
  // A native sidecar gets the signal after the task's container has ended: the exit file exists before that.
  if (exitFile.look()) return said.then(({ status }) => endFromFile(status, waiting));
  // A second container gets the signal at the same time as the task, which may be writing its last checkpoint now. Or
  // the task was killed together with the shell that would write the file, which caused our signal: then the task has
  // changed no file since.
  const livedUntilMs = sidecar.lastChangeMs(why.atMs - WRAPPER_DELAY_MS) - DYING_MS;
  const signalledAtMs = Math.max(why.atMs - WRAPPER_DELAY_MS, livedUntilMs);
  sidecar.taskSignalled(signalledAtMs);
  sidecar.noticed(deadlineMs);
  const shareMs = Math.max(0, Math.round((deadlineMs - why.atMs) * TASK_SHARE));
  log.info(`${why.signal}: waiting for the end of the task, for at most ${formatMs(shareMs)}`);
  const share = sleep(shareMs, undefined, { ref: false });
  const late = await Promise.race([said, stops.second, fenced, share]);
  if (typeof late !== 'object' || !('status' in late))
    return { ...NOBODY_KNOWS, signalledAtMs, deadlineMs, preempted: true };
  return { ...NOBODY_KNOWS, ...endOf(late.status, log), preempted: true, deadlineMs };
}

/** The task ended before we were stopped. */
async function endFromFile(status: TaskStatus, { settings, log, stops }: Waiting): Promise<RunEnd> {
  const end = { ...NOBODY_KNOWS, ...endOf(status, log) };
  if (status.code !== statusOfSignal(os.constants.signals.SIGTERM)) return end;
  // Somebody stopped the task. If our own signal follows soon, the whole pod is being stopped.
  const stop = await Promise.race([stops.first, sleep(OURS_NEXT_MS, undefined, { ref: false })]);
  return stop === undefined ? end : { ...end, preempted: true, deadlineMs: stop.atMs + settings.graceMs };
}

function endOf({ code, reason, atMs }: TaskStatus, log: Log): Pick<RunEnd, 'end' | 'reason'> {
  if (reason !== undefined) log.error(reason, { hint: HOW_TO_SAY });
  const end = { code, signal: undefined, atMs };
  return reason === undefined ? { end } : { end, reason };
}
