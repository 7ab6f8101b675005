// Read this first. The sidecar joins the stages: it takes the attempt, restores, watches; each close goes
// through decide() to a push, a record and at last a reclaim; and it ends with the one record that says how
// it went. It knows nothing of processes and signals: the launcher, or `capture watch`, tells it of the task.
import { setMaxListeners } from 'node:events';
import picomatch from 'picomatch';
import { generationName } from '../model/checkpoint/history.ts';
import { EXIT } from '../model/exit-status.ts';
import type { RelPath } from '../model/path.ts';
import { clockMs } from '../native/clock.ts';
import { openWitness, type Witness } from '../watch/witness.ts';
import { afterTheEnd } from './after-the-end.ts';
import { Checkpoints } from './checkpoints/checkpoints.ts';
import { Companions } from './checkpoints/companions.ts';
import { Generations } from './checkpoints/generations.ts';
import { OpenResults } from './checkpoints/open-results.ts';
import { openAnswers } from './control/answer.ts';
import { openFlush } from './control/flush.ts';
import { openGauges, type Gauges } from './disk/gauges.ts';
import { PressureWatch } from './disk/pressure-watch.ts';
import { Reclaims } from './disk/reclaims.ts';
import type { Opened, SidecarOptions } from './interface.ts';
import { Files } from './queue/files.ts';
import { openPusher } from './queue/pushing.ts';
import { Recorder } from './queue/recorder.ts';
import { Results } from './queue/results.ts';
import { rolesToStore } from './queue/roles.ts';
import { Unsaved } from './queue/unsaved.ts';
import type { Context } from './run/context.ts';
import { statMember } from './run/local-file.ts';
import { Outage } from './run/outage.ts';
import { openDrainWindow, type DrainWindow } from './shutdown/drain-window.ts';
import { finish } from './shutdown/finish.ts';
import { endWhenLost } from './shutdown/lost-store.ts';
import { type FinishParts } from './shutdown/parts.ts';
import { openStopping } from './shutdown/stopping.ts';
import { scanBaseline } from './startup/baseline-scan.ts';
import { sayOpening } from './startup/opening-lines.ts';
import type { Restored } from './startup/restore.ts';
import { begin } from './startup/start.ts';
import { watchFor, type Watching } from './startup/watching.ts';
import { warmUpLanes } from './startup/workers.ts';

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
  await scanBaseline(context, { files: parts.files, restored }, watcher, () => {
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
        parts.pressureWatch.close();
        parts.gauges.close();
        await watcher.close();
        parts.witness?.close();
        await close();
      },
    },
  };
}

type Parts = Omit<FinishParts, 'watcher' | 'window'> &
  Watching & { readonly gauges: Gauges; readonly pressureWatch: PressureWatch; readonly unsaved: Unsaved };

/** The pieces and who tells whom. Nothing runs yet. */
function assemble(context: Context, restored: Restored, witness: Witness | undefined): Parts {
  const { settings, manifest } = context;
  const watching: Parts['watching'] = { watcher: undefined };
  const suspects = new Map<RelPath, string>();
  const stored = (): void => {
    recorder.due();
    gauges.stored();
    pressureWatch.changed();
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
    rolesOf: (path) => rolesToStore(manifest.rolesOf(path)),
    replaces: (path) => results.replaces(path),
    sizeOf: (path) => statMember(context.root, path)?.size ?? 0,
    now: context.now,
    onChange: (fileState, before) => {
      gauges.changed(fileState, before);
      unsaved.changed(fileState, before);
      if (fileState.role !== 'checkpoint') return;
      if (fileState.closes > before.closes)
        generations.closed(fileState.path, fileState.lastClose?.how ?? 'close', context.now());
      else if (before.pushing && !fileState.pushing) generations.memberSettled();
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
  const pressureWatch = new PressureWatch({ look: () => reclaims.pressure(), relieve: () => recorder.now() });
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
    pressureWatch,
    gauges,
    watching,
    witness,
  };
}

function lastMatcher(pattern: string | undefined): (path: RelPath) => boolean {
  return pattern === undefined ? () => false : picomatch(pattern, { dot: true });
}
