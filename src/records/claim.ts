// Claims the next attempt number of this index: the one thing that two machines may try at once. Each number has one
// winner. The loser takes the next number, and the earlier attempt then finds itself fenced.
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { recordKey, type KeyScope } from '../model/format/keys.ts';
import { reached } from '../native/failpoint.ts';
import type { Store } from '../store/contract/store.ts';
import { isClaim, listRecords, readClaim, readText } from './read.ts';
import { listWithClaim } from './stale.ts';

/** More losses in a row than machines could start at once. */
const MOST_TRIES = 100;

export interface ClaimOptions {
  readonly store: Store;
  readonly scope: KeyScope;
  /** The body of `000000.started` for an attempt; `push` is unique to this claim. */
  readonly bodyOf: (attempt: number) => { readonly text: string; readonly push: string };
  /** Go on even if the store ignores create-only puts. */
  readonly unfenced: boolean;
  readonly signal?: AbortSignal;
  /** How long a listing may lag, ms; default 30 s. */
  readonly staleMs?: number;
}

/**
 * The attempt that is ours now. Throws status 69 if the store silently replaces an object on a create-only put: two
 * attempts could then both believe that they own the index.
 */
export async function claimAttempt(options: ClaimOptions): Promise<number> {
  const { store, scope, bodyOf, unfenced, signal } = options;
  let attempt = (await listRecords(store, scope, signal)).newestAttempt + 1;
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const key = recordKey(scope, attempt, 0, 'started');
    const { text, push } = bodyOf(attempt);
    reached('claim.before-put');
    const outcome = await store.put(key, Buffer.from(text), { meta: { push }, ifAbsent: true, signal });
    reached('claim.after-put');
    if (outcome === 'stored' && (await readText(store, key, signal)) === text) {
      if (!unfenced) await proveFence(options, key);
      reached('claim.won');
      return attempt;
    }
    // A listing that lags would show us none of what that attempt has stored.
    const listing = isClaim(await readClaim(store, scope, attempt, signal))
      ? await listWithClaim(store, scope, attempt, { signal, waitMs: options.staleMs })
      : await listRecords(store, scope, signal);
    attempt = Math.max(attempt, listing.newestAttempt) + 1;
  }
  throw new CaptureError(
    EXIT.unavailable,
    `cannot claim an attempt under ${store.url}: all numbers are taken`,
    {
      hint: 'check that nothing else writes below .capture/ of this prefix',
    },
  );
}

/** Creates the claimed key again: a store that lets this pass would not stop a second machine either. */
async function proveFence({ store, signal }: ClaimOptions, key: string): Promise<void> {
  if (store.createsAtomically) return;
  const text = await readText(store, key, signal);
  if (text === undefined || text === null) return;
  const meta = { push: `${key}:probe` };
  if ((await store.put(key, Buffer.from(text), { meta, ifAbsent: true, signal })) === 'exists') return;
  throw new CaptureError(
    EXIT.unavailable,
    `${store.url} ignores create-only puts: two attempts of one index could not be told apart`,
    {
      hint: 'use a store with create-only puts, or --unfenced if your scheduler never starts an index twice',
    },
  );
}
