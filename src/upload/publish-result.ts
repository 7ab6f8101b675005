// Pushes a result under its one key, and never silently replaces what somebody else has stored there: the
// older object is copied to `.~n~` first, and one warning says so.
import { keptKey, resultKey, type KeyScope } from '../model/format/keys.ts';
import type { StoredFile } from '../model/format/records.ts';
import type { RelPath } from '../model/path.ts';
import { reached } from '../native/failpoint.ts';
import { sendFile, type SendJob, type Sender, type Sent } from './send.ts';

/** What is known to stand under a result's key. */
export type Prior =
  /** Nothing that we know of: the push only creates. */
  | { readonly kind: 'unknown' }
  /** Our own earlier push, whose bytes the task has seen and gone on from. */
  | { readonly kind: 'ours'; readonly key: string }
  /**
   * Of an earlier attempt, another task name, or ours and then reclaimed: kept when it differs. `push`: that of
   * the record; undefined when no record that we know names the object.
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
  readonly baseline: { readonly md5: string; readonly size: number } | undefined;
  readonly spoolFirst: boolean;
  readonly onSent?: SendJob['onSent'];
  readonly isHeld?: SendJob['isHeld'];
  /** Highest n of the path's `.~n~` objects that is taken. */
  readonly keptN: number;
}

export interface ResultPublisher extends Sender {
  readonly scope: KeyScope;
  /** Throws when another attempt owns the index; `anew` takes no answer that is older than the question. */
  readonly passFence: (anew: boolean, signal?: AbortSignal) => Promise<void>;
}

export interface PublishedResult {
  readonly sent: Exclude<Sent, { kind: 'exists' }>;
  /** An older object was kept under this key, as the path's n-th. */
  readonly kept: { readonly key: string; readonly n: number } | undefined;
  /** The object in the other form (compressed or not): to be deleted once a record names the new one. */
  readonly obsolete: string | undefined;
}

export async function publishResult(
  publisher: ResultPublisher,
  job: ResultJob,
  signal?: AbortSignal,
): Promise<PublishedResult> {
  let prior = job.prior;
  let kept: PublishedResult['kept'];
  for (;;) {
    const replaced = prior;
    const sent: Sent = await sendFile(
      publisher,
      {
        path: job.path,
        keyOf: (compressed) => resultKey(job.path, publisher.scope, compressed),
        baseline: job.baseline,
        spoolFirst: job.spoolFirst,
        onSent: job.onSent,
        isHeld: job.isHeld,
        ifAbsent: replaced.kind === 'unknown',
        beforeSend: async (md5) => {
          if (replaced.kind === 'unknown') return;
          // What we did not push may be a later attempt's, which we slept through.
          await publisher.passFence(replaced.kind === 'foreign', signal);
          if (replaced.kind === 'foreign')
            kept ??= await keepOlder(publisher, job, { prior: replaced, md5 }, signal);
        },
      },
      signal,
    );
    if (sent.kind !== 'exists') {
      const key = sent.kind === 'stored' ? sent.file.key : undefined;
      const older = prior.kind === 'unknown' ? undefined : prior.key;
      return { sent, kept, obsolete: key !== undefined && older !== key ? older : undefined };
    }
    prior = { kind: 'foreign', key: sent.key, push: undefined, compressed: sent.key.endsWith('.zst') };
  }
}

/**
 * Copies the older object to the first free `.~n~`. Undefined when nothing would be lost: it is gone, or it
 * holds the same bytes.
 */
async function keepOlder(
  publisher: ResultPublisher,
  job: ResultJob,
  { prior, md5 }: { readonly prior: Extract<Prior, { kind: 'foreign' }>; readonly md5: string | undefined },
  signal?: AbortSignal,
): Promise<PublishedResult['kept']> {
  const { store, scope } = publisher;
  const older = await store.head(prior.key, signal);
  if (older === undefined || (md5 !== undefined && older.meta['md5'] === md5)) return undefined;
  // Pushed for this very task by a sidecar that died before it could record it. So it was never reclaimed, and
  // the task itself has gone on from it.
  if (older.meta['run'] === publisher.runToken && older.meta['push'] !== prior.push) return undefined;
  let n = job.keptN + 1;
  while ((await taken(n)) !== undefined) n += 1;
  const key = keptKey(job.path, scope, n, prior.compressed);
  reached('keep.before-copy');
  await store.copy(prior.key, key, signal);
  reached('keep.after-copy');
  return { key, n };

  async function taken(candidate: number): Promise<unknown> {
    return (
      (await store.head(keptKey(job.path, scope, candidate, true), signal)) ??
      (await store.head(keptKey(job.path, scope, candidate, false), signal))
    );
  }
}

/** What a record says about a path, as seen by attempt `attempt`. */
export function priorOf(file: StoredFile | undefined, attempt: number, reclaimed: boolean): Prior {
  if (file === undefined) return { kind: 'unknown' };
  if (file.attempt === attempt && !reclaimed) return { kind: 'ours', key: file.key };
  return { kind: 'foreign', key: file.key, push: file.push, compressed: file.compressed };
}
