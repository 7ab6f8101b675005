// Read this first. `capture array`: asks the store which indices are left, and works on them as `capture worker` works
// on a queue, until all have ended or a signal stops it. work.ts is the common part.
import { numberText } from '../array/columns.ts';
import { failed } from '../cli/program.ts';
import { readInherited } from '../launch/inherited.ts';
import { findCommand } from '../launch/task.ts';
import { CaptureError } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import { indexArray, indicesOf } from '../model/index-set.ts';
import { showCommand } from '../model/many/placeholders.ts';
import { showLines, showPath } from '../model/path.ts';
import { plural } from '../model/units.ts';
import { notify } from '../notify/notify.ts';
import { type ArrayRequest, withoutOwn } from './line.ts';
import { thisMachine, type ThisMachine } from './machine.ts';
import { type LastSeen, MemoryBroker } from './memory-broker.ts';
import { runOnEnd } from './on-end.ts';
import { mostAtOnce, whyNever } from '../model/many/admission.ts';
import { openStopEscalation, type StopEscalation } from './stop-escalation.ts';
import { storedState } from './stored-state.ts';
import { submissionOf } from './submitted.ts';
import type { RunnerTools } from './tools.ts';
import { type ArrayProgress, type Progress, progressText } from './view.ts';
import { machineText, withWorker } from './work.ts';

/** Resolves to the exit status. Errors are logged. */
export async function runArray(asked: ArrayRequest, tools: RunnerTools): Promise<ExitStatus> {
  const status = await run(asked, tools).catch((error: unknown) => failed(error, tools.log));
  if (!asked.dryRun) await runOnEnd(asked.onEnd, status, tools);
  return status;
}

/** The indices of an array that are left to do. */
interface IndicesLeft {
  readonly fresh: Uint32Array;
  readonly lastSeen?: LastSeen;
  readonly doneAlready: number;
}

async function run(asked: ArrayRequest, tools: RunnerTools): Promise<ExitStatus> {
  const { settings } = asked;
  const stops = openStopEscalation({
    ignored: readInherited(tools.env).ignoredSignals,
    notices: settings.notices.signals,
  });
  try {
    findProgram(asked, tools.env);
    const left = await leftOf(asked, tools, stops.stopping).catch((error: unknown) => {
      // Errors after a stop are its consequence.
      if (!stops.stopping.aborted) throw error;
    });
    if (left === undefined) return stops.last()?.status ?? EXIT.preempted;
    if (asked.dryRun) return dryRun(asked, left, tools);
    const { fresh, doneAlready } = left;
    if (fresh.length === 0) {
      tools.log.info(`${startText(asked, left)}: nothing is left to do`, {
        event: 'done-already',
        hint: 'to run them again: another --to, or capture rm',
      });
      const none = { waiting: 0, running: 0, done: 0, doneAlready, failed: 0, fenced: 0 };
      return await tellEnd(asked, none, EXIT.ok, tools);
    }
    const { counts, status } = await work(asked, left, stops, tools);
    return await tellEnd(asked, counts, status, tools);
  } finally {
    stops.close();
  }
}

/** Checked first, because a mistyped name would fail every task. Throws status 126 or 127. */
function findProgram({ tasks, cwd }: ArrayRequest, env: NodeJS.ProcessEnv): void {
  for (const index of indicesOf(tasks.indices)) {
    const [command = ''] = tasks.commandOf(index).argv;
    findCommand(command, cwd, env['PATH']);
    return;
  }
}

async function leftOf(
  { tasks, settings, taskName }: ArrayRequest,
  tools: RunnerTools,
  signal: AbortSignal,
): Promise<IndicesLeft> {
  const { indices } = tasks;
  // Indices that are done under another run id do not count. Only the records know the run id, and each run reads those
  // of its own index.
  if (settings.identity.runId !== undefined) return { fresh: indexArray(indices), doneAlready: 0 };
  const { left, done, lastSeen } = await storedState(
    { settings: settings.to, taskName, indices },
    tools.log,
    signal,
  );
  return { fresh: left, lastSeen, doneAlready: done };
}

async function work(
  asked: ArrayRequest,
  left: IndicesLeft,
  stops: StopEscalation,
  tools: RunnerTools,
): Promise<{ readonly counts: ArrayCounts; readonly status: ExitStatus }> {
  const machine = machineFor(asked);
  const { fresh, doneAlready, lastSeen } = left;
  const size = fresh.length + doneAlready;
  const submission = submissionOf({ ...asked, options: asked.passed }, size);
  const broker = new MemoryBroker(submission, fresh, lastSeen);
  const array = (): ArrayProgress => ({ size, doneAlready, waiting: broker.counts().waiting });
  const { tasks, settings, jobs, needs } = asked;
  const most = mostAtOnce(needs, { ...machine, jobs });
  const options = {
    broker,
    machine,
    array,
    stops,
    tools,
    use: asked,
    notices: settings.notices,
    capabilities: [],
    tasksAtOnce: Math.min(most.tasks, fresh.length),
    commandOf: ({ index }: { readonly index: number }) => tasks.commandOf(index),
    env: withoutOwn(tools.env),
  };
  return withWorker(options, async ({ log, scratch, runner, run: untilDone, progress }) => {
    const where = `work directories in ${scratch.words}`;
    log.info(`${startText(asked, left)}; ${sizeText(asked, machine)}; ${where}`, { event: 'start' });
    if (fresh.length > most.tasks) runner.sayFewer(most, needs);
    await untilDone();
    const now = await withOthers(asked, progress(), tools);
    const counts = countsOf(now);
    const hint = counts.waiting > 0 ? 'run the same again: it does what is left' : undefined;
    tools.log.info(progressText(now), { event: 'end', hint });
    const stopped = runner.isNoticed ? EXIT.preempted : undefined;
    return { counts, status: verdictOf(counts, stops.last()?.status ?? stopped) };
  });
}

/** What was left to other attempts may be done by now. If the store cannot say so, it is not. */
async function withOthers(
  { tasks, settings, taskName }: ArrayRequest,
  progress: Progress,
  tools: RunnerTools,
): Promise<Progress> {
  const { counts, array, running } = progress;
  if (array === undefined || counts.fenced === 0 || settings.identity.runId !== undefined) return progress;
  const place = { settings: settings.to, taskName, indices: tasks.indices };
  const signal = AbortSignal.timeout(LAST_LOOK_MS);
  const { left } = (await storedState(place, tools.log, signal).catch(() => undefined)) ?? {};
  if (left === undefined) return progress;
  const undone = left.length - array.waiting - running.length - counts.failed;
  const fenced = Math.min(counts.fenced, Math.max(0, undone));
  const doneAlready = array.doneAlready + counts.fenced - fenced;
  return { ...progress, counts: { ...counts, fenced }, array: { ...array, doneAlready } };
}

/** Throws status 64 if this machine cannot run any of the tasks. */
function machineFor({ needs }: ArrayRequest): ThisMachine {
  const machine = thisMachine();
  const never = whyNever(needs, machine);
  if (never === undefined) return machine;
  throw new CaptureError(EXIT.usage, `no task can run here: ${never}`, {
    hint: 'take a larger machine, or say what a task really needs',
  });
}

/** Each index is in exactly one of these. */
export interface ArrayCounts {
  readonly waiting: number;
  readonly running: number;
  readonly done: number;
  /** Done before this run, according to the store. */
  readonly doneAlready: number;
  /** Failed for good, after the last retry. */
  readonly failed: number;
  /** Another attempt has these indices. */
  readonly fenced: number;
}

function countsOf({ counts, array, running }: Progress): ArrayCounts {
  const { done, failed, fenced } = counts;
  const { waiting = 0, doneAlready = 0 } = array ?? {};
  return { waiting, running: running.length, done, doneAlready, failed, fenced };
}

/** The array is over, and waits no longer for a store that does not answer. */
const LAST_LOOK_MS = 30_000;

/** Some indices are not done: the same status as that of `capture status`. */
const SOME_NOT_DONE: ExitStatus = 1;

/**
 * Returns 0 if all are done, 1 if some failed or `--halt` left some, and 76 if all missing indices belong to other
 * attempts. If some still wait, it returns the status of the signal that stopped the run (`stopped`).
 */
export function verdictOf(
  { waiting, running, failed, fenced }: ArrayCounts,
  stopped: ExitStatus | undefined,
): ExitStatus {
  if (waiting + running > 0 && stopped !== undefined) return stopped;
  if (failed + waiting + running > 0) return SOME_NOT_DONE;
  return fenced > 0 ? EXIT.fenced : EXIT.ok;
}

function startText({ taskName, settings }: ArrayRequest, { fresh, doneAlready }: IndicesLeft): string {
  const done = doneAlready === 0 ? '' : `, ${numberText(doneAlready)} are done`;
  return `array of ${plural(fresh.length + doneAlready, 'task')} ${taskName} -> ${settings.to.url}${done}`;
}

function sizeText({ jobs, needs }: ArrayRequest, machine: ThisMachine): string {
  return `at most ${mostAtOnce(needs, { ...machine, jobs }).tasks} at once (${machineText(machine)})`;
}

/** Prints what would run, with the command of each task. Creates nothing. */
function dryRun(asked: ArrayRequest, left: IndicesLeft, { print }: RunnerTools): ExitStatus {
  print(`${showPath(startText(asked, left))}; ${sizeText(asked, machineFor(asked))}\n`);
  for (const index of left.fresh)
    print(`${index}: ${showLines(showCommand(asked.tasks.commandOf(index).argv))}\n`);
  if (asked.onEnd !== undefined) print(`at the end: ${showLines(asked.onEnd)}\n`);
  return EXIT.ok;
}

/** Sends `--notify`, unless the array is going to run again. Resolves to `status`. */
async function tellEnd(
  { settings, taskName: task }: ArrayRequest,
  counts: ArrayCounts,
  status: ExitStatus,
  { log }: RunnerTools,
): Promise<ExitStatus> {
  const { waiting, done, doneAlready, failed, fenced } = counts;
  if (settings.notify === undefined || waiting > 0) return status;
  const event = status === EXIT.ok ? 'all-done' : 'failed';
  const size = done + doneAlready + failed + fenced;
  const text = `${task}: ${numberText(done + doneAlready)} of ${numberText(size)} done, ${numberText(failed)} failed`;
  // Nothing waits at this point: no task was given back, and none is retried.
  const all = { ...counts, again: 0, retrying: 0 };
  const told = { event, text, task, status, store: settings.to.url, counts: all } as const;
  const why = await notify(settings.notify, told, new AbortController().signal);
  if (why !== undefined) log.warn(`--notify did not work: ${why}`);
  return status;
}
