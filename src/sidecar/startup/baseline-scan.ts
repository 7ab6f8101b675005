// The first scan of the work directory. Before the task starts, the files in it are inherited; for a restarted sidecar,
// the task may have closed them meanwhile.
import { generationName } from '../../model/checkpoint/history.ts';
import { reasonOf } from '../../model/errors.ts';
import type { Evidence } from '../../model/file/evidence.ts';
import { resultKey } from '../../model/format/keys.ts';
import { originOf } from '../../model/format/origin.ts';
import type { Generation } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { directoryState } from '../../native/files.ts';
import type { FoundFile } from '../../watch/scan.ts';
import type { Watcher } from '../../watch/watching.ts';
import type { Witness } from '../../watch/witness.ts';
import type { Files } from '../queue/files.ts';
import { mayBeOverwritten } from '../queue/overwritten.ts';
import {
  readLastAttemptFile,
  writeAttemptFile,
  type Handover,
  type AttemptFacts,
  plain,
} from '../run/attempt-file.ts';
import type { Context } from '../run/context.ts';
import { cannotWrite } from './lock.ts';
import type { Restored } from './restore.ts';

interface ScanParts {
  readonly files: Files;
  readonly restored: Restored;
  /** Undefined if the task's processes cannot be seen. */
  readonly witness: Pick<Witness, 'nobodyDiedUntil'> | undefined;
}

/** Calls `listen` at the moment from which closes count as the task's. */
export async function scanBaseline(
  context: Context,
  { files, restored, witness }: ScanParts,
  watcher: Watcher,
  listen: () => void,
): Promise<void> {
  if (context.resumed !== undefined) {
    inherit(context, files);
    // From now on this sidecar counts as one that is replaced: the task may already have changed what was restored.
    if (context.handover !== undefined) noteTaken(context, context.handover);
    // The task is running: listen first, so that no event is missed for a file that the scan has already passed.
    listen();
    let count = 0;
    for await (const found of watcher.scan(context.signal)) {
      count += found.length;
      const evidence = whoClosed(watcher, witness);
      for (const { path, facts } of found)
        files.closed(path, 'scan', context.now(), { fingerprint: facts, evidence });
    }
    const why =
      context.resumed === 'replaced'
        ? 'the sidecar was restarted'
        : 'it goes on from capture restore --handoff';
    context.log.info(`${why}: ${plural(count, 'declared file')} looked at again`, {
      event: context.resumed === 'replaced' ? 'sidecar-restarted' : 'message',
    });
    return;
  }
  if (context.handover !== undefined) sayWhatIsMissing(context);
  const scan: Scan = (onUnreadable) => watcher.scan(context.signal, onUnreadable);
  await recordInherited(context, restored, scan, context.handover);
  inherit(context, files);
  listen();
}

/**
 * The evidence for files that a scan has just found: if no process has died since the attempt began, those that closed
 * them are alive.
 */
function whoClosed(watcher: Watcher, witness: ScanParts['witness']): Evidence {
  const foundMs = performance.now();
  watcher.look();
  return witness?.nobodyDiedUntil(foundMs) === true ? 'clean' : 'unknown';
}

type Scan = (onUnreadable: (dir: RelPath) => void) => AsyncIterable<readonly FoundFile[]>;

/** Before the task starts, when the files in the work directory are not its own: notes them in the attempt file. */
export async function recordInherited(
  context: Context,
  { generation }: Pick<Restored, 'generation'>,
  scan: Scan,
  handover: Handover | undefined,
): Promise<void> {
  const found = scan((dir) => noteShut(context, dir));
  for await (const some of found) for (const { path, facts } of some) context.inherited.set(path, facts);
  await hashStagedInputs(context, new Set(generation === undefined ? [] : pathsOf(generation)));
  try {
    writeAttemptFile(context.settings, attemptFacts(context, handover));
  } catch (error) {
    throw cannotWrite(context.settings.workdir, error);
  }
}

function noteShut({ root, shut }: Context, dir: RelPath): void {
  const before = directoryState(root, dir);
  if (before !== undefined && !before.isOurs) shut.set(dir, plain(before.facts));
}

/** The task is running: a failed write may cost the next sidecar some knowledge, but ends nothing. */
function noteTaken(context: Context, handover: Handover): void {
  try {
    writeAttemptFile(context.settings, attemptFacts(context, handover));
  } catch (error) {
    context.log.warn(`a sidecar that takes this one's place will not know of it: ${reasonOf(error)}`);
  }
}

function pathsOf({ members, companions }: Generation): readonly RelPath[] {
  return [...members, ...companions].map(({ path }) => path);
}

function attemptFacts(context: Context, handover: Handover | undefined): AttemptFacts {
  const { manifest, baselines } = context;
  return { ...context, handover, baselines: baselines.inputs((path) => manifest.rolesOf(path).input) };
}

function sayWhatIsMissing({ attempt, history: { generations }, log }: Context): void {
  const line = `there is no capture restore --handoff to go on from: attempt ${attempt} begins with the files that are here`;
  const [newest] = generations;
  if (newest === undefined) return log.info(line);
  log.warn(`${line}, and the stored checkpoint ${generationName(newest)} was not restored`, {
    hint: 'run capture restore --handoff first, then capture watch and the task',
  });
}

function inherit({ inherited }: Context, files: Files): void {
  for (const [path, fingerprint] of inherited) files.inherit(path, fingerprint);
}

/**
 * A result that is an input and stays unchanged is not pushed: its md5 is computed while it is the input. A file that
 * the task of a dead attempt made here is no input, because it may be stored nowhere. Neither is a file that came with
 * the checkpoint (`restored`): it is stored as a part of the checkpoint, which may be deleted, and not as a result.
 */
async function hashStagedInputs(context: Context, restored: ReadonlySet<RelPath>): Promise<void> {
  const { inherited, manifest, sender, baselines, signal } = context;
  const before = readLastAttemptFile(context.settings);
  for (const path of inherited.keys()) {
    const roles = manifest.rolesOf(path);
    if (!roles.input || !roles.result || restored.has(path)) continue;
    const digest = await sender.workers.md5(path, signal);
    if (digest.kind !== 'md5') continue;
    if (before !== undefined && before.baselines.get(path)?.md5 !== digest.md5) continue;
    if (await isUnrecorded(context, path)) continue;
    const { md5, facts } = digest;
    baselines.set(path, { kind: 'file', md5, size: facts.size, mode: facts.mode });
  }
}

/**
 * An earlier attempt stored the file and died before a record named it: it came as an input, and is pushed as our
 * result.
 */
async function isUnrecorded(context: Context, path: RelPath): Promise<boolean> {
  const { history, ledger, store, scope, settings, signal } = context;
  if (ledger.results.has(path) || !mayBeOverwritten(history)) return false;
  const heads = [true, false].map((compressed) => store.head(resultKey(path, scope, compressed), signal));
  return (await Promise.all(heads)).some((head) => {
    const origin = head === undefined ? undefined : originOf(head.key, head.meta);
    return origin !== undefined && origin.runId === settings.identity.runId;
  });
}
