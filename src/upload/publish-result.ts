// Pushes a result under its one key. It never silently replaces an object of somebody else: it first copies the older
// object to `.~n~`, and one warning says so.
import type { Baseline } from '../model/file/baseline.ts';
import { isCompressedKey, keptKey, type KeyScope, MOST_NUMBER, resultKey } from '../model/format/keys.ts';
import type { StoredFile } from '../model/format/records.ts';
import type { RelPath } from '../model/path.ts';
import { reached } from '../native/failpoint.ts';
import {
  ABSENT,
  exactly,
  type ObjectHead,
  type Precondition,
  type PutOutcome,
  StoreError,
} from '../store/contract/store.ts';
import { sendFile, type SendJob, type Sender, type Sent, type Target } from './send.ts';

/** How often another object may appear between the look and the put, before the push is retried later. */
const MOST_ROUNDS = 5;

/** The known object under a result's key. */
export type Prior =
  /** None is known: the push only creates. */
  | { readonly kind: 'unknown' }
  /** This attempt's own earlier push; the task has seen its bytes and continued from them. */
  | { readonly kind: 'ours'; readonly key: string; readonly tag: string | undefined }
  /**
   * From an earlier attempt or another task name, or this attempt's own that was reclaimed since: kept if it differs.
   * `push`: as in the record; undefined if no known record names the object.
   */
  | {
      readonly kind: 'foreign';
      readonly key: string;
      readonly push: string | undefined;
      readonly compressed: boolean;
    };

export interface ResultJob {
  readonly path: RelPath;
  readonly prior: Prior;
  readonly baseline: Baseline | undefined;
  readonly spoolFirst: boolean;
  readonly onSent?: SendJob['onSent'];
  readonly pushOf?: SendJob['pushOf'];
  readonly isStaged?: SendJob['isStaged'];
  /** Highest n in use among the path's `.~n~` objects. */
  readonly keptN: number;
}

export interface ResultPublisher extends Sender {
  readonly scope: KeyScope;
  /** Throws if another attempt owns the index. `anew`: accept no answer that is older than this call. */
  readonly passFence: (anew: boolean, signal?: AbortSignal) => Promise<void>;
}

export interface PublishedResult {
  readonly sent: Exclude<Sent, { kind: 'exists' | 'replaced-meanwhile' }>;
  /** An older object was kept under this key, as the path's n-th. */
  readonly kept: { readonly key: string; readonly n: number } | undefined;
  /** The object in the other form (compressed or not). Delete it once a record names the new one. */
  readonly obsolete: string | undefined;
}

/**
 * Stores a result under its name. If no object is known, it is one put that only creates. If the object is this
 * attempt's own, it is one put conditional on its tag. Any other object is looked at first, and kept if necessary.
 */
export async function publishResult(
  publisher: ResultPublisher,
  job: ResultJob,
  signal?: AbortSignal,
): Promise<PublishedResult> {
  const { path, baseline, spoolFirst, onSent, pushOf, isStaged } = job;
  const keyOf = (compressed: boolean): string => resultKey(path, publisher.scope, compressed);
  const { done, kept, priors } = await replacePrior(
    publisher,
    job,
    (precondition) =>
      sendFile(
        publisher,
        { path, keyOf, baseline, spoolFirst, onSent, pushOf, isStaged, precondition },
        signal,
      ),
    signal,
  );
  const key = done.kind === 'stored' ? done.file.key : undefined;
  return {
    sent: done,
    kept,
    obsolete: key === undefined ? undefined : priors.find((one) => one !== key),
  };
}

/** What {@link promoteResult} needs to know. */
export interface PromoteJob extends Pick<ResultJob, 'path' | 'prior' | 'keptN'> {
  /** Tag of the staged object, if this process has put it. */
  readonly stagedTag?: string | undefined;
}

export interface Promoted extends Omit<PublishedResult, 'sent'> {
  readonly file: StoredFile;
  /** Tag of the object, for the put that replaces it. */
  readonly tag: string;
}

/** The same for a staged object, which is copied to the result's name inside the store. */
export async function promoteResult(
  publisher: ResultPublisher,
  job: PromoteJob,
  staged: StoredFile,
  signal?: AbortSignal,
): Promise<Promoted> {
  const { store, scope } = publisher;
  const key = resultKey(job.path, scope, staged.compressed);
  const { push, storedSize: sizeBytes } = staged;
  const { stagedTag: tag } = job;
  const source = tag === undefined || sizeBytes === undefined ? undefined : { tag, push, sizeBytes };
  const { done, kept, priors } = await replacePrior(
    publisher,
    job,
    async (preconditionOf) => {
      const precondition = await preconditionOf({ key, md5: staged.md5 });
      reached('promote.before');
      let outcome: PutOutcome;
      try {
        outcome = await store.promote(staged.key, key, { precondition, source, signal });
      } catch (error) {
        // An earlier try has done it, and its answer was lost, if this very object is there.
        const there = isMissing(error) ? await store.head(key, signal) : undefined;
        if (there?.meta['push'] !== push) throw error;
        outcome = { kind: 'stored', tag: there.tag };
      }
      reached('promote.after');
      return outcome.kind === 'stored' ? outcome : { ...outcome, key };
    },
    signal,
  );
  const { suspect: _, ...file } = { ...staged, key };
  return { file, tag: done.tag, kept, obsolete: priors.find((one) => one !== key) };
}

function isMissing(error: unknown): boolean {
  return error instanceof StoreError && error.kind === 'missing';
}

/** The condition did not hold: somebody else's object is under this key. */
interface Refused {
  readonly kind: 'exists' | 'replaced-meanwhile';
  readonly key: string;
}

interface ReplaceResult<Outcome> {
  readonly done: Exclude<Outcome, Refused>;
  readonly kept: PublishedResult['kept'];
  /** Keys of earlier content of the result. */
  readonly priors: readonly string[];
}

/** Runs `act` with the condition under which it may replace the object there, until that condition holds. */
async function replacePrior<Outcome extends { readonly kind: string }>(
  publisher: ResultPublisher,
  job: PromoteJob,
  act: (preconditionOf: (to: Target) => Promise<Precondition>) => Promise<Outcome>,
  signal?: AbortSignal,
): Promise<ReplaceResult<Outcome>> {
  let prior = job.prior;
  let kept: PublishedResult['kept'];
  let keptTag: string | undefined;
  for (let round = 1; ; round += 1) {
    const replaced = prior;
    const done = await act(async ({ key, md5 }) => {
      if (replaced.kind === 'unknown') return ABSENT;
      const known = replaced.kind === 'ours' ? conditionOf(replaced, key) : undefined;
      if (known !== undefined) {
        await publisher.passFence(false, signal);
        return known;
      }
      const older = await publisher.store.head(replaced.key, signal);
      // After the look: the object found may belong to a later attempt that started while this machine was suspended.
      await publisher.passFence(true, signal);
      // In each round: a late put may have replaced the object that was kept before.
      if (replaced.kind === 'foreign' && older?.tag !== keptTag) {
        kept = (await keepOlder(publisher, job, { prior: replaced, older, md5 }, signal)) ?? kept;
        keptTag = older?.tag;
      }
      return replaced.key === key ? exactly(older) : ABSENT;
    });
    if (!isRefused(done)) {
      const priors = [job.prior, prior].flatMap((one) => (one.kind === 'unknown' ? [] : [one.key]));
      return { done: done as Exclude<Outcome, Refused>, kept, priors };
    }
    const { key } = done;
    if (round === MOST_ROUNDS)
      throw new StoreError('transient', `${key} was replaced by another each time that it was to be stored`);
    prior = { kind: 'foreign', key, push: undefined, compressed: isCompressedKey(key) };
  }
}

/** The condition of a put over this attempt's own object, which needs no look. */
function conditionOf({ key, tag }: Extract<Prior, { kind: 'ours' }>, to: string): Precondition | undefined {
  // In the other form: the object under this key is unknown.
  if (key !== to) return ABSENT;
  return tag === undefined ? undefined : { kind: 'is', tag };
}

function isRefused(outcome: { readonly kind: string }): outcome is Refused {
  return outcome.kind === 'exists' || outcome.kind === 'replaced-meanwhile';
}

/**
 * Copies the older object to the first free `.~n~`. Undefined if nothing would be lost: it is gone, or it holds the
 * same bytes.
 */
async function keepOlder(
  publisher: ResultPublisher,
  job: PromoteJob,
  { prior, older, md5 }: Replacement,
  signal?: AbortSignal,
): Promise<PublishedResult['kept']> {
  if (older === undefined || (md5 !== undefined && older.meta['md5'] === md5)) return undefined;
  // A sidecar of this very task pushed it, and died before it could record it. So it was never reclaimed, and the task
  // itself has continued from it.
  if (older.meta['run'] === publisher.runToken && older.meta['push'] !== prior.push) return undefined;
  reached('keep.before-copy');
  const done = await copyToKept(publisher, job, prior, signal);
  reached('keep.after-copy');
  return done;
}

/** Copies an object of the path to its first free `.~n~`. `from`: a staged object, or what stands under its name. */
export async function copyToKept(
  { store, scope }: Pick<ResultPublisher, 'store' | 'scope'>,
  { path, keptN }: Pick<ResultJob, 'path' | 'keptN'>,
  from: Pick<StoredFile, 'key' | 'compressed'>,
  signal?: AbortSignal,
): Promise<{ readonly key: string; readonly n: number }> {
  const isTaken = async (n: number): Promise<boolean> =>
    (await store.head(keptKey(path, scope, n, true), signal)) !== undefined ||
    (await store.head(keptKey(path, scope, n, false), signal)) !== undefined;
  // A record may name the largest number: then the first free one is taken.
  let n = keptN < MOST_NUMBER ? keptN + 1 : 1;
  while (await isTaken(n)) n += 1;
  const key = keptKey(path, scope, n, from.compressed);
  await store.copy(from.key, key, signal);
  return { key, n };
}

interface Replacement {
  readonly prior: Extract<Prior, { kind: 'foreign' }>;
  /** The object that is there. */
  readonly older: ObjectHead | undefined;
  /** Of the content that will replace it. */
  readonly md5: string | undefined;
}

/**
 * What a record says about a path, from the view of attempt `attempt`. `tag`: of our object, if this process has put
 * it.
 */
export function priorOf(
  file: StoredFile | undefined,
  attempt: number,
  { reclaimed, tag }: { readonly reclaimed: boolean; readonly tag: string | undefined },
): Prior {
  if (file === undefined) return { kind: 'unknown' };
  if (file.attempt === attempt && !reclaimed) return { kind: 'ours', key: file.key, tag };
  return { kind: 'foreign', key: file.key, push: file.push, compressed: file.compressed };
}
