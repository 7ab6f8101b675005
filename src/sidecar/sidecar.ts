// Read this first. The sidecar joins the stages: it takes the attempt, restores, watches; each close goes
// through decide() to a push, a record and at last a reclaim; and it ends with the one record that says how
// it went. It knows nothing of processes and signals: the launcher, or `capture watch`, tells it of the task.
import { setMaxListeners } from 'node:events';
import picomatch from 'picomatch';
import { clockMs } from '../native/clock.ts';
import { EXIT } from '../model/exit-status.ts';
import { generationName } from '../model/checkpoint/history.ts';
import type { RelPath } from '../model/path.ts';
import type { RecordKind } from '../model/format/records.ts';
import type { Settings } from '../model/format/settings.ts';
import { openWitness, type Witness } from '../watch/witness.ts';
import type { Log } from '../log/log.ts';
import { afterTheEnd } from './after-the-end.ts';
import { openAnswers } from './control/answer.ts';
import { openFlush } from './control/flush.ts';
import { Checkpoints } from './checkpoints/checkpoints.ts';
import { Companions } from './checkpoints/companions.ts';
import type { Context } from './run/context.ts';
import { openDrainWindow, type DrainWindow } from './shutdown/drain-window.ts';
import { Files } from './queue/files.ts';
import { endWhenLost } from './shutdown/lost-store.ts';
import { finish, type Finished, type FinishParts, type RunEnd } from './shutdown/finish.ts';
import { openGauges, type Gauges } from './disk/gauges.ts';
import { Generations } from './checkpoints/generations.ts';
import { OpenResults } from './checkpoints/open-results.ts';
import { Outage } from './run/outage.ts';
import { openStopping, type Stopping } from './shutdown/stopping.ts';
import { Reclaims } from './disk/reclaims.ts';
import { statMember } from './checkpoints/members.ts';
import { Recorder } from './queue/recorder.ts';
import { Relief } from './disk/pressure-watch.ts';
import { rolesToTrack } from './queue/roles.ts';
import type { Restored } from './startup/restore.ts';
import { openPusher } from './queue/pushing.ts';
import { Results } from './queue/results.ts';
import { watchFor, type Watching } from './startup/watching.ts';
import { Unsaved } from './queue/unsaved.ts';
import { sayOpening } from './startup/opening-lines.ts';
import { warmUpLanes } from './startup/workers.ts';
import { begin } from './startup/start.ts';
import { takeStock } from './startup/baseline-scan.ts';

export interface SidecarOptions {
  readonly settings: Settings;
  /** Set when a dead sidecar of this attempt is being replaced. */
  readonly attempt: number | undefined;
  /** No launcher would replace this sidecar. */
  readonly alone?: boolean;
  /** The pid of the process that the task descends from; undefined: nobody knows which processes are the task's. */
  readonly launcher?: number | undefined;
  readonly log: Log;
  /** Gives up an opening that is still under way; means nothing afterwards. */
  readonly giveUp?: AbortSignal;
  /** Another attempt has taken the index over: the task must be stopped. */
  readonly onFenced: (message: string) => void;
  /** While we are being stopped: what sending the task's last files is measured to take, ms. */
  readonly onDrainTakes: (ms: number) => void;
}

export interface Sidecar {
  readonly attempt: number;
  /** Generation that was restored, as `<attempt>-<generation>`; '' when none. */
  readonly restored: string;
  readonly runToken: string;
  /** The attempt's last record, when it had been written before: nothing is watched any more. */
  readonly endedAs?: RecordKind;
  /** Path of the control socket, for CAPTURED_SOCKET. */
  readonly socket: string | undefined;
  /** The task's first process is there. */
  taskStarted(): void;
  /** A signal that asks the task to end is on its way to it. */
  readonly taskSignalled: Stopping['taskSignalled'];
  /** We will be stopped at this instant, ms since the epoch; undefined: not after all. */
  readonly noticed: Stopping['noticed'];
  /** What is closed by now had better be safe. */
  readonly advised: Stopping['advised'];
  /** The task has ended: everything is made durable and the last record written. Called once. */
  finish(end: RunEnd): Promise<Finished>;
  close(): Promise<void>;
}

/** `done-already`: `--skip-done` and this index is done; nothing was started. */
export type Opened = { readonly kind: 'open'; readonly sidecar: Sidecar } | { readonly kind: 'done-already' };

export async function openSidecar(options: SidecarOptions): Promise<Opened> {
  const { settings, log } = options;
  const stop = new AbortController();
  // Every push under way listens: that is no leak.
  setMaxListeners(0, stop.signal);
  let fencedBy: string | undefined;
  const outage = new Outage(log, clockMs);
  options.giveUp?.addEventListener('abort', () => stop.abort(options.giveUp?.reason));
  const beginning = await begin({
    ...options,
    outage,
    signal: stop.signal,
    onFenced: ({ message }) => {
      fencedBy = message;
      options.onFenced(message);
      stop.abort(new Error(message));
    },
  });
  if (beginning.kind === 'done-already') {
    const { attempt, kind } = beginning;
    log.info(`done already in attempt ${attempt} (--skip-done)`, { event: kind, attempt });
    return { kind };
  }
  const { context, restored, ended, close } = beginning;
  if (ended !== undefined) return { kind: 'open', sidecar: afterTheEnd(beginning, ended) };
  warmUpLanes(context);
  const witness = openWitness({ launcher: options.launcher, self: process.pid, token: context.runToken });
  const parts = assemble(context, restored, witness);
  outage.runs({ waiting: () => parts.files.waiting, onOver: () => parts.files.retryNow() });
  const watcher = await watchFor(parts);
  await takeStock(context, { files: parts.files, restored }, watcher, () => {
    parts.watching.watcher = watcher;
  });
  const flush = openFlush({ ...parts, watcher });
  const control = await openAnswers(context, flush);
  const stopping = openStopping({ ...parts, flush, onDrainTakes: options.onDrainTakes });
  // Below a launcher the user has read it before a sidecar is replaced.
  if (options.attempt === undefined || options.alone === true) await sayOpening(context, restored);
  let window: DrainWindow | undefined;
  return {
    kind: 'open',
    sidecar: {
      attempt: context.attempt,
      restored: restored.generation === undefined ? '' : generationName(restored.generation),
      runToken: context.runToken,
      socket: control?.path,
      taskStarted: () => watcher.look(),
      taskSignalled: stopping.taskSignalled,
      noticed: stopping.noticed,
      advised: stopping.advised,
      finish: async (run) => {
        const { drainTimeoutMs } = settings;
        window = openDrainWindow({ deadlineMs: run.deadlineMs, drainTimeoutMs, now: context.now, stop });
        stopping.drains(window);
        const lost = endWhenLost(outage, window, context.now);
        if (run.deadlineMs !== undefined) stopping.noticed(run.deadlineMs);
        await control?.close();
        const finished = await finish(
          { ...parts, watcher, window },
          { ...run, signalledAtMs: run.signalledAtMs ?? stopping.signalledAtMs },
        );
        lost.close();
        return fencedBy === undefined
          ? finished
          : {
              status: EXIT.fenced,
              last: { ...finished.last, level: 'error', text: `${fencedBy}; ${finished.last.text}` },
            };
      },
      close: async () => {
        window?.close();
        stopping.close();
        outage.close();
        parts.relief.close();
        parts.gauges.close();
        await watcher.close();
        parts.witness?.close();
        await close();
      },
    },
  };
}

type Parts = Omit<FinishParts, 'watcher' | 'window'> &
  Watching & { readonly gauges: Gauges; readonly relief: Relief; readonly unsaved: Unsaved };

/** The pieces and who tells whom. Nothing runs yet. */
function assemble(context: Context, restored: Restored, witness: Witness | undefined): Parts {
  const { settings, manifest } = context;
  const watching: Parts['watching'] = { watcher: undefined };
  const suspects = new Map<RelPath, string>();
  const stored = (): void => {
    recorder.due();
    gauges.stored();
    relief.changed();
  };
  const results = new Results(context, stored);
  const checkpoints = new Checkpoints(context);
  const openResults = new OpenResults({
    context,
    unsaved: () => unsaved,
    files: () => files,
    suspects,
    pids: () => witness?.pids() ?? [],
    restored: restored.generation,
  });
  const companions = new Companions(context, restored.generation, openResults, () => checkpoints.number);
  const files = new Files({
    paths: context.paths,
    push: openPusher({ context, checkpoints, results, suspects }),
    rolesOf: (path) => rolesToTrack(manifest.rolesOf(path)),
    replaces: (path) => results.replaces(path),
    sizeOf: (path) => statMember(context.root, path)?.size ?? 0,
    now: context.now,
    onChange: (track, before) => {
      gauges.changed(track, before);
      unsaved.changed(track, before);
      if (track.role !== 'checkpoint') return;
      if (track.closes > before.closes)
        generations.closed(track.path, track.lastClose?.how ?? 'close', context.now());
      else if (before.pushing && !track.pushing) generations.memberSettled();
    },
  });
  const unsaved = new Unsaved(context, { files: () => files, watcher: () => watching.watcher });
  const generations = new Generations({
    context,
    files,
    checkpoints,
    companions,
    drainEvents: () => watching.watcher?.drainNow(),
    behind: () => unsaved.behind(),
    isLast: lastMatcher(settings.checkpointLast),
    restored: restored.members.map(({ file }) => file.path),
    onCommitted: stored,
  });
  const gauges = openGauges(context, results, () => generations.commits.count);
  const reclaims = new Reclaims(context, results);
  // Under pressure a record is not waited for: what it names may go.
  const relief = new Relief({ look: () => reclaims.pressure(), relieve: () => recorder.now() });
  const recorder = new Recorder(context, async () => {
    await results.deleteObsolete();
    await reclaims.whileRunning();
  });
  for (const { file, facts } of restored.members) checkpoints.noteRestored(file, facts);
  return {
    context,
    files,
    results,
    checkpoints,
    companions,
    openResults,
    generations,
    recorder,
    reclaims,
    suspects,
    unsaved,
    relief,
    gauges,
    watching,
    witness,
  };
}

function lastMatcher(pattern: string | undefined): (path: RelPath) => boolean {
  return pattern === undefined ? () => false : picomatch(pattern, { dot: true });
}
