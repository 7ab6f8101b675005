// Whether this run seals what it stores, and under which key. An index is sealed by all its attempts or by none: a
// restart that forgot --encrypt must not store a plain byte beside sealed ones. All its recipients are of age, or all of
// gpg.
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import type { SealedNote } from '../../model/format/records.ts';
import { isClaim, readClaim } from '../../records/claim.ts';
import type { RecordListing } from '../../records/list.ts';
import { endingFor, indexKeyFrom, newIndexKey, type SealKeys } from '../../seal/keys.ts';
import { sealedStore, wrongIdentity } from '../../seal/sealed-store.ts';
import type { Store } from '../../store/contract/store.ts';

export interface Sealing {
  /** What the run stores with. */
  readonly store: Store;
  readonly scope: KeyScope;
  /** For the records; undefined: nothing is sealed. */
  readonly sealed: SealedNote | undefined;
  /** For the attempt file. */
  readonly sealKey: string | undefined;
}

export interface SealingOptions {
  readonly keys: SealKeys;
  /** Not sealed. */
  readonly inner: Store;
  readonly listing: RecordListing;
  /** Of the attempt file. */
  readonly sealKey: string | undefined;
  /** The attempt is not claimed yet, and its task not started. */
  readonly isNew: boolean;
  readonly signal: AbortSignal;
}

/**
 * Throws status 64 if earlier attempts of the index were sealed and this one would not be, the reverse, or for the other
 * kind of recipients, and 69 if nothing here opens what they have stored.
 */
export async function sealRun({
  keys,
  inner,
  listing,
  sealKey,
  isNew,
  signal,
}: SealingOptions): Promise<Sealing> {
  const { scope, newestAttempt } = listing;
  const { hasClaim, before } = await earlierSealing(inner, listing, signal);
  if (isNew && hasClaim && keys.ending !== (before && endingFor(before.to)))
    throw otherwiseBefore(listing, { url: inner.url, keys, before });
  if (keys.ending === undefined)
    return {
      store: sealedStore(inner, { keys, reader: 'run' }),
      scope,
      sealed: undefined,
      sealKey: undefined,
    };
  const known = indexKeyFrom(sealKey) ?? (before && (await keys.open(before)));
  if (isNew && before !== undefined && known === undefined)
    throw wrongIdentity(`what attempt ${newestAttempt} has stored`, keys, before);
  const indexKey = known ?? newIndexKey();
  return {
    store: sealedStore(inner, { keys, reader: 'run', indexKey }),
    scope: { ...scope, sealed: keys.ending },
    sealed: await keys.noteOf(indexKey, signal),
    sealKey: indexKey.key.toString('base64'),
  };
}

/** What the newest claim of the index says. */
async function earlierSealing(
  store: Store,
  { scope, newestAttempt }: RecordListing,
  signal: AbortSignal,
): Promise<{ readonly hasClaim: boolean; readonly before: SealedNote | undefined }> {
  const claim = newestAttempt === 0 ? 'gone' : await readClaim(store, scope, newestAttempt, signal);
  return isClaim(claim) ? { hasClaim: true, before: claim.sealed } : { hasClaim: false, before: undefined };
}

/** Throws status 69 if the index is sealed, and no identity opens it. */
export async function refuseUnopened({
  keys,
  inner,
  listing,
  signal,
}: Pick<SealingOptions, 'keys' | 'inner' | 'listing' | 'signal'>): Promise<void> {
  const { before } = await earlierSealing(inner, listing, signal);
  if (before !== undefined && (await keys.open(before)) === undefined)
    throw wrongIdentity(`what attempt ${listing.newestAttempt} has stored`, keys, before);
}

function otherwiseBefore(
  { newestAttempt: attempt }: RecordListing,
  {
    url,
    keys,
    before,
  }: { readonly url: string; readonly keys: SealKeys; readonly before: SealedNote | undefined },
): CaptureError {
  const given = keys.ending === undefined ? 'no --encrypt is given' : '--encrypt names the other kind of key';
  return before === undefined
    ? new CaptureError(
        EXIT.usage,
        `attempt ${attempt} of this index has stored in plain under ${url}, and --encrypt is given`,
        {
          hint: 'name another prefix with --to: what is stored there stays readable',
        },
      )
    : new CaptureError(EXIT.usage, `this index is sealed under ${url}, and ${given}`, {
        hint: before.to.map((one) => `--encrypt ${one}`).join(' '),
      });
}
