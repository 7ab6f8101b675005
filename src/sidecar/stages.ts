// The stages of a run, each made of earlier ones, the watcher that they listen to, and the callbacks between them.
// Nothing runs until they listen.
import picomatch from 'picomatch';
import { AskedToStop } from './shutdown/asked-to-stop.ts';
import { type ClosedEvent, sameFingerprint } from '../model/file/file-state.ts';
import { isGood } from '../model/checkpoint/restore-order.ts';
import { compileManifest, rolesToStore } from '../model/file/manifest.ts';
import { type RelPath, showPath } from '../model/path.ts';
import { factsBeneath } from '../native/files.ts';
import type { SpareInstance } from '../watch/spare-instance.ts';
import { openWatcher } from '../watch/watcher.ts';
import type { Watcher } from '../watch/watching.ts';
import type { Witness } from '../watch/witness.ts';
import { Checkpoints } from './checkpoints/checkpoints.ts';
import { Companions } from './checkpoints/companions.ts';
import { Generations } from './checkpoints/generations.ts';
import { OpenCheckpoints } from './checkpoints/open-checkpoints.ts';
import { OpenResults } from './checkpoints/open-results.ts';
import { Gauges } from './disk/gauges.ts';
import { LiveNumbers } from './disk/live-numbers.ts';
import { PressureWatch } from './disk/pressure-watch.ts';
import { Reclaims } from './disk/reclaims.ts';
import { ResourceWatch } from './disk/resources.ts';
import { Files } from './queue/files.ts';
import type { Doubt } from './queue/partials.ts';
import { pusherOf } from './queue/push.ts';
import { Recorder } from './queue/recorder.ts';
import { Results } from './queue/results.ts';
import { Unsaved } from './queue/unsaved.ts';
import { contentClose, isChangedAfter } from './run/content-close.ts';
import type { Context, Needs } from './run/context.ts';
import type { FinishParts } from './shutdown/outcome.ts';
import type { Restored } from './startup/restore.ts';

export type Stages = Omit<FinishParts, 'window' | 'outputs'> & {
  readonly live: LiveNumbers;
  readonly pressureWatch: PressureWatch;
  readonly unsaved: Unsaved;
  readonly openCheckpoints: OpenCheckpoints;
};

export interface StagesOptions {
  readonly context: Context;
  readonly restored: Restored;
  readonly watcher: Watcher;
  readonly witness: Witness | undefined;
  /** The pid of the process that the task descends from, if there is one. */
  readonly launcher: number | undefined;
}

export function makeStages({ context, restored, watcher, witness, launcher }: StagesOptions): Stages {
  const { settings } = context;
  const suspects = new Map<RelPath, Doubt>();
  const results = new Results(context);
  const checkpoints = new Checkpoints(context);
  for (const { file, facts } of restored.members) checkpoints.noteRestored(file, facts);
  const files = filesOf({ context, results, checkpoints, watcher });
  const reclaims = new Reclaims(context, results);
  const recorder = new Recorder(context, async () => {
    await results.deleteObsolete();
    await reclaims.whileRunning();
  });
  // Under pressure a record is written at once: what it names may be deleted.
  const pressureWatch = new PressureWatch({ look: () => reclaims.pressure(), reclaim: () => recorder.now() });
  const gauges = new Gauges(context, results);
  const resources = new ResourceWatch(context, launcher);
  const live = new LiveNumbers(context, { gauges, resources });
  const unsaved = new Unsaved(context, {
    files,
    watcher,
    staged: results.staged,
    unanswered: results.unanswered,
  });
  const openResults = new OpenResults({
    context,
    unsaved,
    files,
    witness,
    restored: restored.generation,
  });
  const companions = new Companions(context, restored.generation, openResults, checkpoints);
  const generations = new Generations({
    context,
    files,
    checkpoints,
    companions,
    drainEvents: () => watcher.drainNow(),
    behind: (set) => unsaved.behind(set),
    links: watcher.links,
    isLast: lastMatcher(settings.checkpointLast),
    // Only a good set says what a whole one holds.
    restored:
      restored.generation !== undefined && isGood(restored.generation)
        ? restored.members.map(({ file }) => file.path)
        : [],
    onCommitted: () => {
      gauges.committed();
      recorder.due();
      pressureWatch.changed();
    },
  });
  const committed = (): number => generations.commits.count;
  const openCheckpoints = new OpenCheckpoints({ context, unsaved, files, committed });
  const stages = { files, results, checkpoints, companions, openResults, generations, recorder, reclaims };
  const watches = { pressureWatch, gauges, live, resources, openCheckpoints };
  const asked = new AskedToStop(context);
  return { context, watcher, suspects, unsaved, asked, ...watches, ...stages };
}

type FilesParts = Pick<Stages, 'context' | 'results' | 'checkpoints' | 'watcher'>;

function filesOf({ context, results, checkpoints, watcher }: FilesParts): Files {
  const { manifest, root, now, paths, places, log } = context;
  return new Files({
    paths,
    places,
    push: pusherOf({ context, checkpoints, results }),
    rolesOf: (path) => rolesToStore(manifest.rolesOf(path)),
    sizeOf: (path) => checkpoints.held.of(path)?.facts.size ?? factsBeneath(root, path)?.size ?? 0,
    covers: (path) => checkpoints.held.of(path)?.closes,
    catchUp: (path) => watcher.catchUp(path),
    isStill: (path, state) => {
      const facts = factsBeneath(root, path);
      return facts !== undefined && sameFingerprint(facts, state);
    },
    closeOf: (lastClose, state) => contentClose(context, lastClose, state),
    isAfter: (close, state) => isChangedAfter(context, close, state),
    now,
    signal: context.signal,
    onTooMany: ({ path, why }) =>
      log.error(`${showPath(path)} is not stored, nor is any new name from now on: ${why}`, {
        event: 'not-stored',
        path,
        hint: 'declare fewer files, or let the task pack them into one',
      }),
  });
}

function lastMatcher(pattern: string | undefined): (path: RelPath) => boolean {
  return pattern === undefined ? () => false : picomatch(pattern, { dot: true });
}

/** Connects the stages that a file's change concerns. From now on the clocks of companions and records run. */
export function connect({ context, files, gauges, live, ...stages }: Stages): void {
  const { generations, recorder, results, pressureWatch } = stages;
  const stored = (): void => {
    gauges.stored();
    recorder.due();
    pressureWatch.changed();
  };
  files.listen(({ fileState, before, event }) => {
    gauges.changed(fileState, before);
    live.happened(fileState.role, event);
    if (fileState.role === 'result') {
      if (event?.kind === 'vouched') results.staged.vouched(fileState.path);
      if (event?.kind === 'stored') stored();
    } else if (event?.kind === 'closed' && fileState.lastClose !== before.lastClose) {
      generations.closed(fileState.path, fileState.lastClose?.how ?? 'close', context.now());
    } else if (before.pushing && !fileState.pushing) generations.memberPushed(fileState.path);
  });
  results.onNamed = stored;
  context.ledger.isNamed = (one) => results.isNamed(one, files.get(one.path, 'result'));
  generations.begin();
  recorder.begin();
  stages.openCheckpoints.begin();
}

interface Watch {
  readonly watcher: Watcher;
  /** From now on the stages get what the task closes. */
  readonly listen: (stages: Stages) => void;
}

/**
 * Opens the watcher of a run. What it reports before the stages listen is dropped: until the baseline scan, files that
 * come and go are not the task's. `witness`: undefined if it is impossible to see which process closes a file. `spare`:
 * set if there are several runs in this process.
 */
export async function openWatch(
  { root, manifest, settings, log }: Needs<'root' | 'manifest' | 'settings' | 'log'>,
  witness: Witness | undefined,
  spare: SpareInstance | undefined,
): Promise<Watch> {
  let listening: Stages | undefined;
  const watcher = await openWatcher({
    root,
    interest: manifest,
    onClosed: (event) => {
      if (listening !== undefined) closed(listening, event);
    },
    // Closes were lost; all declared files are reported again.
    onOverflow: () => listening?.generations.overflowed(),
    onWarning: (message, hint) => log.warn(message, { hint }),
    rescanMs: settings.rescanMs,
    linkInterest: compileManifest({ ...settings.manifest, inputs: [] }),
    spare,
    witness,
  });
  return {
    watcher,
    listen: (stages) => {
      listening = stages;
    },
  };
}

function closed(stages: Stages, event: ClosedEvent): void {
  const { path, atMs, seq, since } = event;
  // What was closed while the file was set aside was reported of no declared file.
  const isOurs = event.how === 'rename' && stages.reclaims.hasPutBack(path);
  const { how, evidence } = isOurs ? ({ how: 'scan', evidence: 'unknown' } as const) : event;
  // A scan reports every declared file that it sees, even if nobody has touched it.
  const fingerprint = how === 'scan' || how === 'quiet' ? factsBeneath(stages.context.root, path) : undefined;
  stages.files.closed(path, how, atMs, { fingerprint, evidence, seq, since });
}
