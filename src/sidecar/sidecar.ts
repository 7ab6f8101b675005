// Read this first. The sidecar joins the stages: it claims the attempt, restores, watches; each close goes through
// decide() to a push, a record and at last a reclaim; the one last record says how it went. It knows nothing of
// processes and signals: the launcher, or `capture watch`, tells it of the task.
import { setMaxListeners } from 'node:events';
import { generationName } from '../model/checkpoint/history.ts';
import { EXIT } from '../model/exit-status.ts';
import type { CaptureRecord } from '../model/format/records.ts';
import { clockMs } from '../native/clock.ts';
import { openWitness } from '../watch/witness.ts';
import { openAnswers } from './control/control.ts';
import { Flush } from './control/flush.ts';
import type { Opened, Sidecar, SidecarOptions } from './interface.ts';
import { openOutputs } from './output/outputs.ts';
import { openOutage } from './run/outage.ts';
import { type DrainWindow, endWhenLost, openDrainWindow } from './shutdown/drain-window.ts';
import { finish, type Finished } from './shutdown/finish.ts';
import type { FinishParts, RunEnd } from './shutdown/outcome.ts';
import { Stopping } from './shutdown/stopping.ts';
import { connect, makeStages, openWatch } from './stages.ts';
import { scanBaseline } from './startup/baseline-scan.ts';
import { sayOpening } from './startup/opening-lines.ts';
import { openPatience, type Patience, startLimitMs } from './startup/patience.ts';
import { begin, type Begun } from './startup/start.ts';
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
  const beginning = await begin({
    ...options,
    outage,
    patience,
    signal: stop.signal,
    onFenced: ({ message }) => {
      fenced.abort(message);
      options.onFenced(message);
      stop.abort(new Error(message));
    },
  });
  if (beginning.kind === 'done-already') {
    const { attempt, kind } = beginning;
    log.info(`done already in attempt ${attempt} (--skip-done)`, { event: kind, attempt });
    return { kind };
  }
  const { ended } = beginning;
  const sidecar =
    ended === undefined
      ? await run(options, beginning, { stop, patience, fenced: fenced.signal })
      : afterTheEnd(beginning, ended);
  return { kind: 'open', sidecar };
}

/** How a run is stopped from within. */
interface Stops {
  /** Gives up everything that is under way. */
  readonly stop: AbortController;
  /** Until the task may start: ends the wait for a store that gives no answer. */
  readonly patience: Patience;
  /** Aborted, with the message for the user, when another attempt has taken over the index. */
  readonly fenced: AbortSignal;
}

/** Watches from now on what the task closes. */
async function run(options: SidecarOptions, begun: Begun, stops: Stops): Promise<Sidecar> {
  const { context, restored } = begun;
  const witness = openWitness({ launcher: options.launcher, self: process.pid, token: context.runToken });
  const { watcher, listen } = await openWatch(context, witness);
  const stages = makeStages({ context, restored, watcher, witness, launcher: options.launcher });
  const { files } = stages;
  connect(stages);
  context.outage.runs({ waiting: () => files.waiting, onOver: () => files.retryNow() });
  await scanBaseline(context, { files, restored }, watcher, () => listen(stages));
  const flush = new Flush(stages);
  const control = await openAnswers(context, flush);
  const outputs = await openOutputs(context, options);
  const stopping = new Stopping({ ...stages, flush, outputs, onDrainTakes: options.onDrainTakes });
  // If a launcher replaces a sidecar, the user has read it already.
  if (options.attempt === undefined || options.standalone === true)
    await sayOpening(context, begun, stops.patience.signal);
  stops.patience.close();
  stages.resources.begin();
  stages.live.open();
  // Not before the task may start: it takes a while, and a part of it holds this thread.
  setImmediate(() => warmUpWorkers(context));
  let window: DrainWindow | undefined;
  return {
    attempt: context.attempt,
    restored: restored.generation === undefined ? '' : generationName(restored.generation),
    runToken: context.runToken,
    socket: control?.path,
    taskStarted: () => watcher.look(),
    taskSignalled: (atMs) => stopping.taskSignalled(atMs),
    noticed: (deadlineMs) => stopping.noticed(deadlineMs),
    advised: () => stopping.advised(),
    finish: async (end) => {
      const { now, settings } = context;
      const { drainTimeoutMs } = settings;
      window = openDrainWindow({ deadlineMs: end.deadlineMs, drainTimeoutMs, now, stop: stops.stop });
      stopping.drains(window);
      if (end.deadlineMs !== undefined) stopping.noticed(end.deadlineMs);
      await control?.close();
      const signalledAtMs = end.signalledAtMs ?? stopping.signalledAtMs;
      const finished = await drain({ ...stages, outputs, window }, { ...end, signalledAtMs });
      return stops.fenced.aborted ? endedFenced(finished, stops.fenced) : finished;
    },
    close: async () => {
      window?.close();
      stopping.close();
      await outputs?.close();
      stages.pressureWatch.close();
      stages.gauges.close();
      stages.resources.close();
      await stages.live.close();
      context.outage.close();
      await watcher.close();
      witness?.close();
      await begun.close();
    },
  };
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

/** However this attempt ended, the index is another attempt's now. */
function endedFenced({ last }: Finished, fenced: AbortSignal): Finished {
  const text = `${String(fenced.reason)}; ${last.text}`;
  return { status: EXIT.fenced, last: { ...last, level: 'error', text } };
}

/**
 * A sidecar that replaces one that died after the attempt's last record: everything that this record names is stored.
 * Local files may be half reclaimed by now, so what is here no longer shows what the task left. Answers with what the
 * record says, and changes nothing.
 */
function afterTheEnd({ context, close }: Begun, { end, kind }: CaptureRecord): Sidecar {
  return {
    attempt: context.attempt,
    restored: '',
    endedAs: kind,
    runToken: context.runToken,
    socket: undefined,
    taskStarted: () => undefined,
    taskSignalled: () => undefined,
    noticed: () => undefined,
    advised: () => undefined,
    finish: async () => ({
      status: end?.status ?? EXIT.internal,
      last: {
        level: 'info',
        text: `the last record was written, then the sidecar died: local files may be left -> ${context.store.url}`,
        fields: { event: 'end', status: end?.status },
      },
    }),
    close,
  };
}
