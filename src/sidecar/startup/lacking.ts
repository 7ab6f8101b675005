// What results lack because this attempt resumes from a checkpoint set that is ahead of them: named at the start, and
// kept in every record from then on. A file that is in the work directory, or was stored after the set, lacks nothing.
// A result that was stored and that no record names is recorded from now on, as the task will not write it again.
import pLimit from 'p-limit';
import type { Log } from '../../log/log.ts';
import { generationName, type History } from '../../model/checkpoint/history.ts';
import {
  resultsBehind,
  isStateStored,
  lackingAfter,
  lackingNames,
  withPartials,
} from '../../model/checkpoint/lacking.ts';
import { isProofOfLife } from '../../model/checkpoint/restore-order.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import type { Behind, Generation, Lacking, StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import type { WorkDir } from '../../native/beneath.ts';
import { factsBeneath } from '../../native/files.ts';
import type { Store } from '../../store/contract/store.ts';
import { oldestFirst } from '../../model/outcome/partials.ts';
import { mayBeOverwritten, unrecordedResult, type WholeObject } from '../queue/overwritten.ts';
import { unrecordedPartials } from '../queue/partials.ts';

/** A look costs a round trip and no bytes. */
const LOOKS_AT_ONCE = 16;

export interface LackingJob {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly root: WorkDir;
  readonly history: History;
  /** Files that this start has fetched and placed. */
  readonly inputs: ReadonlySet<RelPath>;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface Found {
  readonly lacking: readonly Lacking[];
  /** Results whose attempt died before it could record them. */
  readonly unrecorded: readonly StoredFile[];
}

/** `generation`: the one that is in the work directory now. */
export async function findLacking(job: LackingJob, generation: Generation): Promise<Found> {
  const behind = resultsBehind(generation).filter((one) => !stands(job, one));
  const saved = await pLimit(LOOKS_AT_ONCE).map(behind, (one) => storedOf(job, one, generation.attempt));
  const lost = behind.filter((_, at) => saved[at] === undefined);
  // What a later attempt has stored may be only the rest of it.
  const replaced = behind.filter((_, at) => (saved[at]?.attempt ?? 0) > generation.attempt);
  const lacking = lackingAfter(generation, [...lost, ...replaced]);
  const unrecorded = await unrecordedPartials(
    job,
    lacking.map(({ path }) => path),
  );
  const partials = [...job.history.partials, ...unrecorded].toSorted(oldestFirst);
  const found = withPartials(lacking, [...lost, ...replaced], {
    partials,
    isProof: isProofOfLife(generation),
  });
  const isNew = new Set(lost.map(({ path }) => path));
  tellLost(
    job.log,
    generation,
    found.filter(({ path, whole }) => isNew.has(path) && whole !== true),
  );
  const isRecorded = ({ path, push }: StoredFile): boolean => job.history.results.get(path)?.push === push;
  return {
    lacking: found,
    unrecorded: saved.flatMap((one) => (one === undefined || isRecorded(one) ? [] : [one])),
  };
}

function tellLost(log: Log, generation: Generation, lost: readonly Lacking[]): void {
  const written = `what attempt ${generation.attempt} had written to these results before checkpoint ${generationName(generation)}`;
  const hint = 'declare files that the task appends to with --companions; --no-restore starts from nothing';
  const nowhere = lost.filter(({ key }) => key === undefined);
  const partial = lost.filter(({ key }) => key !== undefined);
  if (nowhere.length > 0)
    log.warn(`${written} is not stored, and the task will not write it again: ${lackingNames(nowhere)}`, {
      hint,
    });
  if (partial.length > 0)
    log.warn(
      `${written} is stored only in a state that may be half-written, and the task will not write it again: ${lackingNames(partial)}`,
      { hint },
    );
}

/** True if the local file is longer than what was restored of it: the task continues it. */
function stands({ root, history, inputs }: LackingJob, { path }: Behind): boolean {
  if (inputs.has(path)) return false;
  const here = factsBeneath(root, path);
  return here !== undefined && here.size > 0 && here.size !== history.results.get(path)?.size;
}

/** Includes a push whose attempt died before it could record it. Undefined if this state is not stored. */
async function storedOf(job: LackingJob, one: Behind, attempt: number): Promise<StoredFile | undefined> {
  const { history } = job;
  const recorded = history.results.get(one.path);
  // Of a file that was open, a later attempt has written only the rest.
  const isIt = (there: WholeObject): boolean =>
    isStateStored(there, one, attempt) && !(one.open && there.attempt > attempt);
  if (recorded !== undefined && isIt(recorded)) return recorded;
  if (!mayBeOverwritten(history)) return undefined;
  return unrecordedResult(job, one.path, isIt);
}
