// The last cut, when the task and all its writers are gone and every push has ended: commits what there is, if it
// differs from the newest generation. Says what is missing, and marks it in the generation.
import { worthAtEnd } from '../../model/checkpoint/cut.ts';
import { reasonOf } from '../../model/errors.ts';
import type { Companion, StoredFile } from '../../model/format/records.ts';
import { showPath, type RelPath } from '../../model/path.ts';
import { statMember } from '../run/local-file.ts';
import {
  isNewest,
  isRenewed,
  markSuspect,
  nameInNewest,
  type GenerationFiles,
  type Marks,
} from './commit.ts';
import type { Cutting } from './cutting.ts';
import type { CutParts } from './pending-cut.ts';

export interface LastCut {
  /** Declared checkpoint files that exist. */
  readonly members: readonly RelPath[];
  readonly cutting: Cutting;
  readonly clean: boolean;
  /** True if a death may have made the member's last close. */
  readonly suspect: (path: RelPath) => boolean;
  readonly nowMs: number;
  /** Aborts when no more files may be sent. */
  readonly deadline: AbortSignal;
}

/** Rejects if it could not be recorded. */
export type Commit = (generation: GenerationFiles, marks: Marks) => Promise<void>;

/** Resolves to the members that are not stored. Throws if the generation could not be recorded. */
export async function commitLast(
  { context, files, checkpoints, companions }: CutParts,
  last: LastCut,
  commit: Commit,
): Promise<readonly RelPath[]> {
  const { ledger, log, settings } = context;
  const { members, cutting, clean } = last;
  const objects = members.map((path) => {
    const facts = statMember(context.root, path);
    return facts === undefined ? undefined : checkpoints.objectOf(path, facts);
  });
  const missing = members.filter((_, at) => objects[at] === undefined);
  const whole = objects.filter((object) => object !== undefined);
  // Inherited and never touched: there is nothing new to commit.
  const fresh = [...files.fileStates('checkpoint')].some(
    (fileState) => fileState.closes > 0 || (clean && fileState.durable !== undefined),
  );
  const suspects = members.filter(last.suspect);
  const suspect = suspects.length > 0;
  // A set that was cut at an instant proves to be whole if the task ends well.
  const committed = isNewest(ledger, whole) && !(clean && ledger.generations[0]?.instant === true);
  // What passed its check before the commit is good, whatever closed it.
  const ofDeath = whole.filter(({ path }) => suspects.includes(path));
  // If it was committed while the death came to light, the mark is due at once, as for what was there before.
  if (settings.verify?.atCommit !== true && markSuspect(context, closesOf(ofDeath, files)))
    await ledger.write('stored', {}, context.signal);
  const isNew = fresh && whole.length > 0 && !committed;
  const held =
    isNew || !clean || companions.areWholeSet ? await lastCapture(companions, last, log) : undefined;
  if (companions.areWholeSet && held !== undefined) {
    if (isRenewed(ledger, held.companions))
      await commit({ members: [], companions: held.companions }, held.isWhole ? {} : { incomplete: true });
    return missing;
  }
  if (!isNew) {
    // The last record, which follows, carries it.
    if (held !== undefined) nameInNewest(context, held.companions);
    return missing;
  }
  const worth = clean ? 'proven' : worthAtEnd(cutting.state, last.nowMs, cutting.sendMs);
  const incomplete = missing.length > 0 || worth === 'incomplete' || held?.isWhole === false;
  await commit(
    { members: whole, companions: held?.companions ?? [] },
    {
      ...(suspect ? { suspect } : {}),
      ...(incomplete ? { incomplete } : {}),
      ...(worth === 'instant' ? { instant: true } : {}),
    },
  );
  if (missing.length > 0)
    log.warn(`the last checkpoint lacks ${missing.map(showPath).join(', ')}: marked incomplete`);
  return missing;
}

/** For each object of a suspect member the time of the close that made it suspect. */
export function closesOf(
  objects: readonly StoredFile[],
  files: CutParts['files'],
): ReadonlyMap<string, number> {
  return new Map(
    objects.map(({ path, key }) => [key, files.get(path, 'checkpoint')?.lastClose?.atMs ?? Infinity]),
  );
}

interface LastCapture {
  readonly companions: readonly Companion[];
  /** Every companion is stored up to its present size. */
  readonly isWhole: boolean;
}

async function lastCapture(
  companions: CutParts['companions'],
  { deadline, clean }: LastCut,
  log: CutParts['context']['log'],
): Promise<LastCapture> {
  try {
    const capture = await companions.capture({ atCheckpoint: true, ended: !clean }, deadline);
    if (capture.kind === 'captured') return { companions: capture.companions, isWhole: true };
    log.warn(`companion ${showPath(capture.path)} is still being changed: what was stored before counts`);
  } catch (error) {
    if (!deadline.aborted) throw error;
    log.warn(`companions are not stored to their ends: ${reasonOf(error)}`);
  }
  return { companions: companions.current, isWhole: false };
}
