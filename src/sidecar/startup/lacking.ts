// What results lack because this attempt resumes from a checkpoint set that is ahead of them: named at the start, and
// kept in every record from then on. A file that is here, or was stored after the set, lacks nothing.
import pLimit from 'p-limit';
import type { Log } from '../../log/log.ts';
import { generationName, type History } from '../../model/checkpoint/history.ts';
import { behindOf, lackingAfter, namesOf, withPartials } from '../../model/checkpoint/lacking.ts';
import { type KeyScope, resultKey } from '../../model/format/keys.ts';
import type { Behind, Generation, Lacking } from '../../model/format/records.ts';
import type { WorkDir } from '../../native/beneath.ts';
import { factsBeneath } from '../../native/files.ts';
import type { Store } from '../../store/contract/store.ts';
import { mayBeOverwritten } from '../queue/overwritten.ts';
import { unrecordedPartials } from '../queue/partials.ts';

/** A look costs a round trip and no bytes. */
const LOOKS_AT_ONCE = 16;

export interface LackingJob {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly root: WorkDir;
  readonly history: History;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** `generation`: the one that is in the work directory now. */
export async function findLacking(job: LackingJob, generation: Generation): Promise<readonly Lacking[]> {
  const behind = behindOf(generation).filter((one) => !stands(job, one));
  const saved = await pLimit(LOOKS_AT_ONCE).map(behind, (one) => isStored(job, one));
  const lost = behind.filter((_, at) => saved[at] !== true);
  const lacking = lackingAfter(generation, lost);
  const unrecorded = await unrecordedPartials(
    job,
    lacking.map(({ path }) => path),
  );
  const found = withPartials(lacking, [...job.history.partials, ...unrecorded]);
  const isNew = new Set(lost.map(({ path }) => path));
  tellLost(
    job.log,
    generation,
    found.filter(({ path }) => isNew.has(path)),
  );
  return found;
}

function tellLost(log: Log, generation: Generation, lost: readonly Lacking[]): void {
  const written = `what attempt ${generation.attempt} had written to these results before checkpoint ${generationName(generation)}`;
  const hint = 'declare append-only files that stay open with --companions; --no-restore starts from nothing';
  const nowhere = lost.filter(({ key }) => key === undefined);
  const partial = lost.filter(({ key }) => key !== undefined);
  if (nowhere.length > 0)
    log.warn(`${written} is not stored, and the task will not write it again: ${namesOf(nowhere)}`, { hint });
  if (partial.length > 0)
    log.warn(
      `${written} is stored only as a death left it, and the task will not write it again: ${namesOf(partial)}`,
      { hint },
    );
}

/** True if the local file is more than what was restored of it: the task continues it. */
function stands({ root, history }: LackingJob, { path }: Behind): boolean {
  const here = factsBeneath(root, path);
  return here !== undefined && here.size > 0 && here.size !== history.results.get(path)?.size;
}

/** Includes a push that its attempt did not live to record. */
async function isStored({ store, scope, history, signal }: LackingJob, one: Behind): Promise<boolean> {
  const { path, push } = one;
  if (history.results.get(path)?.push !== push) return true;
  if (!mayBeOverwritten(history)) return false;
  const heads = [true, false].map((compressed) => store.head(resultKey(path, scope, compressed), signal));
  const found = (await Promise.all(heads)).filter((head) => head !== undefined);
  return found.some(({ meta }) => meta['push'] !== push);
}
