// Read this first. The sidecar joins the stages: it claims the attempt, restores, watches. Each close goes through
// decide() to a push, a record and finally a reclaim; the last record says how the run went. It knows nothing about
// processes and signals: the launcher, or `capture watch`, informs it about the task.
import { setMaxListeners } from 'node:events';
import { generationName } from '../model/checkpoint/history.ts';
import { EXIT } from '../model/exit-status.ts';
import type { CaptureRecord } from '../model/format/records.ts';
import { NO_NUMBERS } from '../model/format/shared-sidecar.ts';
import { clockMs } from '../native/clock.ts';
import { openWitness } from '../watch/witness.ts';
import { type Control, openAnswers } from './control/control.ts';
import { Flush } from './control/flush.ts';
import type { Opened, Sidecar, SidecarOptions } from './interface.ts';
import { KilledRuns } from './disk/killed-runs.ts';
import { openOutputs, type Outputs } from './output/outputs.ts';
import { OURSELVES } from './run/context.ts';
import { openOutage } from './run/outage.ts';
import { CloseStack } from '../model/close-stack.ts';
import { Shared } from './run/shared.ts';
import { endWhenLost, openDrainWindow } from './shutdown/drain-window.ts';
import { finish, type Finished } from './shutdown/finish.ts';
import type { FinishParts, RunEnd } from './shutdown/outcome.ts';
import { Stopping } from './shutdown/stopping.ts';
import { connect, makeStages, openWatch, type Stages } from './stages.ts';
import { scanBaseline } from './startup/baseline-scan.ts';
import { sayOpening } from './startup/opening-lines.ts';
import { openPatience, type Patience, startLimitMs } from './startup/patience.ts';
import { startAttempt, type StartedAttempt } from './startup/start.ts';
import { warmUpWorkers } from './startup/workers.ts';

export async function openSidecar(options: SidecarOptions): Promise<Opened> {
  const { log } = options;
  const stop = new AbortController();
  // Many pieces of work listen to it at once: that is no leak.
  setMaxListeners(0, stop.signal);
  const fenced = new AbortController();
  const outage = openOutage(log, clockMs);
  options.giveUp?.addEventListener('abort', () => stop.abort(options.giveUp?.reason));
  // If a sidecar is replaced, its task is running already.
  const limitMs = options.attempt === undefined ? startLimitMs(options.settings) : undefined;
  const patience = openPatience({ limitMs, signal: stop.signal, outage });
  const result = await startAttempt({
    ...options,
    caller: options.caller ?? OURSELVES,
    shared: options.shared ?? new Shared({ isMany: false }),
    outage,
    patience,
    signal: stop.signal,
    onFenced: ({ message }) => {
      fenced.abort(message);
      options.onFenced(message);
      stop.abort(new Error(message));
    },
  });
  if (result.kind === 'done-already') {
    const { attempt, kind } = result;
    log.info(`done already in attempt ${attempt} (--skip-done)`, { event: kind, attempt });
    return { kind };
  }
  const { ended } = result;
  const sidecar =
    ended === undefined
      ? await run(options, result, { stop, patience, fenced: fenced.signal })
      : afterTheEnd(result, ended);
  return { kind: 'open', sidecar };
}

/** How a run is stopped from within. */
interface Stops {
  /** Gives up everything that is under way. */
  readonly stop: AbortController;
  /** Until the task may start: ends the wait for a store that does not answer. */
  readonly patience: Patience;
  /** Aborted, with the message for the user, when another attempt has taken over the index. */
  readonly fenced: AbortSignal;
}

/** From now on watches what the task closes. What it opens is closed with it, and at once if it fails. */
async function run(options: SidecarOptions, started: StartedAttempt, stops: Stops): Promise<Sidecar> {
  const owned = new CloseStack();
  owned.add(started, (one) => one.close());
  try {
    return sidecarOf(started, await open({ options, started, stops, owned }), stops, owned);
  } catch (error) {
    stops.stop.abort(error);
    await started.refused(stops.stop.signal.reason);
    await owned.close();
    throw error;
  }
}

interface Opening {
  readonly options: SidecarOptions;
  readonly started: StartedAttempt;
  readonly stops: Stops;
  readonly owned: CloseStack;
}

interface Running {
  readonly stages: Stages;
  readonly stopping: Stopping;
  readonly control: Control | undefined;
  readonly outputs: Outputs;
  /** Undefined if capture has not made the work directory, or a runner sweeps for all its tasks. */
  readonly killedRuns: KilledRuns | undefined;
}

async function open({ options, started, stops, owned }: Opening): Promise<Running> {
  const { context, restored } = started;
  owned.add(context.outage, (one) => one.close());
  const { launcher, launcherFaults } = options;
  const witness = openWitness({ launcher, launcherFaults, self: process.pid, token: context.runToken });
  owned.add(witness, (one) => one?.close());
  const { watcher, listen } = await openWatch(context, witness, options.shared?.spare);
  owned.add(watcher, (one) => one.close());
  const stages = makeStages({ context, restored, watcher, witness, launcher });
  const { files } = stages;
  const isAlone = options.shared?.isMany !== true;
  owned.add(stages, (one) => closeStages(one, isAlone));
  connect(stages);
  context.outage.runs({ waiting: () => files.waiting, onOver: () => files.retryNow() });
  await scanBaseline(context, { files, restored, witness }, watcher, () => listen(stages));
  stages.generations.scanned();
  const flush = new Flush({ ...stages, staged: stages.results.staged });
  const control = owned.add(await openAnswers(context, flush), (one) => one?.close());
  const outputs = owned.add(await openOutputs(context, options), (one) => one.close());
  const stopping = new Stopping({
    ...stages,
    staged: stages.results.staged,
    flush,
    outputs,
    onDrainTakes: options.onDrainTakes,
  });
  owned.add(stopping, (one) => one.close());
  // If a launcher replaces a sidecar, the user has read it already.
  if (options.attempt === undefined || options.standalone === true)
    await sayOpening(context, started, stops.patience.signal);
  stops.patience.close();
  stages.resources.begin();
  stages.live.open();
  // Nothing tells a sidecar without a launcher when its task starts.
  if (launcher === undefined) setImmediate(() => warmUpWorkers(context));
  const sweeps = context.settings.madeWorkdir === true && isAlone;
  const killedRuns = sweeps ? new KilledRuns(context) : undefined;
  return { stages, stopping, control, outputs, killedRuns };
}

function sidecarOf(started: StartedAttempt, running: Running, stops: Stops, owned: CloseStack): Sidecar {
  const { context, restored } = started;
  const { stages, stopping, control, outputs, killedRuns } = running;
  let isFinished = false;
  return {
    attempt: context.attempt,
    restored: restored.generation === undefined ? '' : generationName(restored.generation),
    runToken: context.runToken,
    socket: control?.path,
    taskStarted: (pid) => {
      context.taskNews.started(pid);
      stages.watcher.look();
      // Not before: what is read and computed for it would hold up the start of the task.
      warmUpWorkers(context);
      killedRuns?.begin();
    },
    taskSignalled: (atMs) => stopping.taskSignalled(atMs),
    lastChangeMs: (sinceMs) => stopping.lastChangeMs(sinceMs),
    noticed: (deadlineMs) => {
      stopping.noticed(deadlineMs);
      if (deadlineMs !== undefined) void killedRuns?.end(true);
    },
    stopCause: (cause) => stages.asked.because(cause),
    checkFence: () => context.fence.passAnew(context.signal).catch(() => undefined),
    advised: () => stopping.advised(),
    finish: async (end) => {
      const { now, settings } = context;
      const { drainTimeoutMs } = settings;
      const deadlineMs = end.deadlineMs ?? stopping.deadlineMs;
      const window = openDrainWindow({ deadlineMs, drainTimeoutMs, now, stop: stops.stop });
      owned.add(window, (one) => one.close());
      stopping.drains(window);
      if (end.deadlineMs !== undefined) stopping.noticed(end.deadlineMs);
      await control?.close();
      const signalledAtMs = end.signalledAtMs ?? stopping.signalledAtMs;
      const finished = await drain({ ...stages, outputs, window }, { ...end, signalledAtMs });
      isFinished = true;
      await killedRuns?.end(end.preempted || deadlineMs !== undefined || stops.fenced.aborted);
      return stops.fenced.aborted ? endedFenced(finished, stops.fenced) : finished;
    },
    numbers: () => {
      const { files: storedFiles, bytes: storedBytes } = stages.live.stored;
      return { ...stages.gauges.lag, storedFiles, storedBytes };
    },
    close: async () => {
      if (!isFinished) stops.stop.abort(new Error('another sidecar goes on with this attempt'));
      await owned.close();
    },
  };
}

/** The limit for what a push that was given up may still do before it ends. */
const IDLE_WITHIN_MS = 5000;

/** `isAlone`: the process ends next. */
async function closeStages(stages: Stages, isAlone: boolean): Promise<void> {
  const { files, results, generations, recorder } = stages;
  files.stop();
  results.staged.close();
  generations.pause();
  if (!isAlone) {
    await recorder.stop();
    // The work directory is closed next, and its descriptor may be reused.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), IDLE_WITHIN_MS);
    await files.idle(late.signal);
    clearTimeout(timer);
  }
  stages.pressureWatch.close();
  stages.openCheckpoints.close();
  stages.gauges.close();
  stages.resources.close();
  await stages.live.close();
}

async function drain(parts: FinishParts, end: RunEnd): Promise<Finished> {
  const { context, window } = parts;
  const lost = endWhenLost(context.outage, window, context.now);
  try {
    return await finish(parts, end);
  } finally {
    lost.close();
  }
}

/** However this attempt ended, and whatever it could not store, the index belongs to another attempt now. */
function endedFenced({ last }: Finished, fenced: AbortSignal): Finished {
  const text = `${String(fenced.reason)}: exit ${EXIT.fenced}, do not run it again`;
  const { fields } = last;
  return {
    status: EXIT.fenced,
    isSaved: false,
    isInVain: false,
    last: { level: 'error', text, fields: { ...fields, status: EXIT.fenced, reason: String(fenced.reason) } },
  };
}

/**
 * For a sidecar that replaces one that died after the attempt's last record: everything that this record names is
 * stored. Local files may be half reclaimed by now, so the work directory no longer shows what the task left. Answers
 * from the record, and changes nothing.
 */
function afterTheEnd({ context, close }: StartedAttempt, { end, kind, left }: CaptureRecord): Sidecar {
  return {
    attempt: context.attempt,
    restored: '',
    endedAs: kind,
    runToken: context.runToken,
    socket: undefined,
    taskStarted: () => undefined,
    taskSignalled: () => undefined,
    lastChangeMs: (sinceMs) => sinceMs,
    noticed: () => undefined,
    stopCause: () => undefined,
    checkFence: async () => undefined,
    advised: () => undefined,
    numbers: () => NO_NUMBERS,
    finish: async () => ({
      status: end?.status ?? EXIT.internal,
      isSaved: left.length === 0,
      isInVain: false,
      last: {
        level: 'info',
        text: `the last record was written, then the sidecar died: local files may be left -> ${context.store.url}`,
        fields: { event: 'end', status: end?.status },
      },
    }),
    close,
  };
}
