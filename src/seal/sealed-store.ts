// Read this first. A store in which nothing of the user's bytes is readable. This is the only place where bytes are
// sealed on their way out: whatever a run puts passes through here, and what would be plain is refused. Records and
// metadata lose what they say of the bytes. On the way in, objectStream opens what a key says is sealed.
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { parseRecordKey, sealedEnding } from '../model/format/keys.ts';
import { RECORD_LIMIT_BYTES, type SealedNote } from '../model/format/records.ts';
import { releaseMemory } from '../native/memory.ts';
import type {
  GetOptions,
  GotObject,
  ObjectMeta,
  PutOptions,
  PutOutcome,
  Store,
} from '../store/contract/store.ts';
import { isOfGpg, NO_SECRET_KEY_HINT, type SealKeys } from './keys.ts';
import {
  type IndexKey,
  keyIdOf,
  openSecrets,
  openValues,
  sealedText,
  sealSecrets,
  sealValues,
} from './secrets.ts';

/**
 * `run`: a record that no identity opens is left sealed, and so refused as unreadable. `look`: what it says in the clear
 * is used if there is no identity; a wrong one throws status 69.
 */
type Reader = 'run' | 'look';

export interface SealedStoreOptions {
  readonly keys: SealKeys;
  readonly reader: Reader;
  /** Of the index that is being written. Undefined: nothing is sealed. */
  readonly indexKey?: IndexKey | undefined;
}

export function sealedStore(inner: Store, options: SealedStoreOptions): Store {
  const { keys, indexKey } = options;
  return {
    url: inner.url,
    get createsAtomically() {
      return inner.createsAtomically;
    },
    listsByPage: inner.listsByPage,
    sealed: {
      endings: [...(keys.hasIdentity ? ['.age'] : []), ...(keys.ending === '.gpg' ? ['.gpg'] : [])],
      opensGpg: async (signal) => (await keys.gpg?.hasSecretKey(signal)) === true,
      opening: (key) => openingOf(key, keys),
    },
    replacesAtomically: (signal) => inner.replacesAtomically(signal),
    put: async (key, body, how) => {
      if (parseRecordKey(key) !== undefined) return inner.put(key, await recordOut(key, body, options), how);
      if (indexKey === undefined) return inner.put(key, body, how);
      return putSealed(inner, { key, body, how }, { keys, indexKey });
    },
    get: (key, how) =>
      parseRecordKey(key) === undefined ? inner.get(key, how) : recordIn(inner, key, how, options),
    head: async (key, signal) => {
      const head = await inner.head(key, signal);
      return head && { ...head, meta: openMeta(head.meta, keys) };
    },
    list: (prefix, signal) => inner.list(prefix, signal),
    folders: (prefix, signal) => inner.folders(prefix, signal),
    delete: (all, signal) => inner.delete(all, signal),
    copy: (from, to, signal) => inner.copy(from, to, signal),
    promote: (from, to, how) => inner.promote(from, to, how),
    sweep: (prefix, mine, signal) => inner.sweep(prefix, mine, signal),
    confirm: (signal) => inner.confirm(signal),
    access: (signal) => inner.access(signal),
    close: () => inner.close(),
  };
}

type Opening = ReturnType<NonNullable<Store['sealed']>['opening']>;

function openingOf(key: string, keys: SealKeys): Opening {
  const ending = sealedEnding(key);
  if (ending === undefined) return undefined;
  if (ending === '.gpg' ? keys.gpg === undefined : !keys.hasIdentity) throw noIdentity(key);
  return (stored) => keys.opened(ending, stored);
}

const IDENTITY_HINT = '--identity <file>, or --identity-command <command> that prints one';

export function noIdentity(key: string): CaptureError {
  if (sealedEnding(key) === '.gpg')
    return new CaptureError(EXIT.unavailable, `${key} is sealed, and gpg has no key here that opens it`, {
      hint: NO_SECRET_KEY_HINT,
    });
  return new CaptureError(EXIT.unavailable, `${key} is sealed, and no identity is given`, {
    hint: IDENTITY_HINT,
  });
}

/** Nothing here opens the records. */
export function wrongIdentity(what: string, keys: SealKeys, { to }: SealedNote): CaptureError {
  if (isOfGpg(to))
    return new CaptureError(EXIT.unavailable, `${what} is sealed, and gpg has no key here that opens it`, {
      hint: `it needs the secret key of ${to.join(' or ')}: ${NO_SECRET_KEY_HINT}`,
    });
  const why = keys.hasIdentity ? 'no identity that is given opens it' : 'no identity is given';
  return new CaptureError(EXIT.unavailable, `${what} is sealed, and ${why}`, {
    hint: `${IDENTITY_HINT}: of ${to.join(' or ')}`,
  });
}

interface Put {
  readonly key: string;
  readonly body: Uint8Array | AsyncIterable<Uint8Array>;
  readonly how: PutOptions;
}

async function putSealed(
  inner: Store,
  { key, body, how }: Put,
  { keys, indexKey }: { readonly keys: SealKeys; readonly indexKey: IndexKey },
): Promise<PutOutcome> {
  if (sealedEnding(key) !== keys.ending) throw new Error(`${key} would be stored in plain`);
  // The md5 is that of the bytes before they were sealed.
  const { md5: _, release, ...rest } = how;
  const meta = sealMeta(how.meta, indexKey);
  if (body instanceof Uint8Array) {
    const sealed = await keys.seal(body, rest.signal);
    const outcome = await inner.put(key, sealed, { ...rest, meta });
    return outcome.kind === 'stored' ? { ...outcome, sizeBytes: sealed.length } : outcome;
  }
  let sizeBytes = 0;
  const counted = async function* counted(): AsyncGenerator<Uint8Array> {
    const options = { release: (part: Uint8Array) => release?.(part), signal: rest.signal };
    for await (const part of keys.sealParts(body, options)) {
      sizeBytes += part.length;
      yield part;
    }
  };
  const outcome = await inner.put(key, counted(), { ...rest, meta, release: releaseMemory });
  return outcome.kind === 'stored' ? { ...outcome, sizeBytes } : outcome;
}

/** Size and md5 of the bytes before they were sealed, and where they begin in what the task has written. */
function sealMeta({ size, md5, at, ...meta }: ObjectMeta, key: IndexKey): ObjectMeta {
  return { ...meta, secret: sealValues(key, { size, md5, at }, meta['push'] ?? '') };
}

function openMeta({ secret, ...meta }: ObjectMeta, keys: SealKeys): ObjectMeta {
  const key = secret === undefined ? undefined : keys.known(keyIdOf(secret));
  const values = secret === undefined || key === undefined ? {} : openValues(key, secret, meta['push'] ?? '');
  const known = Object.entries(values ?? {}).filter(
    (one): one is [string, string] => typeof one[1] === 'string',
  );
  return { ...meta, ...Object.fromEntries(known) };
}

/** The text of a record as it is stored. */
async function recordOut(
  key: string,
  body: Put['body'],
  { keys, indexKey }: SealedStoreOptions,
): Promise<Put['body']> {
  if (!(body instanceof Uint8Array)) throw new Error(`${key} is a record in parts`);
  const sealed = sealedText(Buffer.from(body).toString());
  if (sealed === undefined) {
    if (indexKey !== undefined) throw new Error(`${key} would be stored in plain`);
    return body;
  }
  const opened = indexKey ?? (await keyFor(sealed, keys));
  return Buffer.from(sealSecrets(sealed, opened));
}

/** A record as it was before it was sealed. */
async function recordIn(
  inner: Store,
  key: string,
  { signal }: GetOptions = {},
  { keys, reader }: SealedStoreOptions,
): Promise<GotObject | undefined> {
  const got = await inner.get(key, { aheadBytes: RECORD_LIMIT_BYTES, signal });
  if (got === undefined) return undefined;
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  // A record grows when it is sealed. A huge object is not read to its end.
  for await (const chunk of got.body) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > 2 * RECORD_LIMIT_BYTES) break;
  }
  const text = Buffer.concat(chunks).toString();
  const sealed = sealedText(text);
  if (sealed === undefined) return { ...got, body: passOn(chunks) };
  const opened = await keyFor(sealed, keys);
  if (opened === undefined && reader === 'look' && keys.hasIdentity && !isOfGpg(sealed.note.to))
    throw wrongIdentity(key, keys, sealed.note);
  const plain = opened === undefined && reader === 'run' ? undefined : openSecrets(sealed, opened);
  return { ...got, body: passOn(plain === undefined ? chunks : [Buffer.from(plain)]) };
}

async function keyFor(
  { keyId, note }: NonNullable<ReturnType<typeof sealedText>>,
  keys: SealKeys,
): Promise<IndexKey | undefined> {
  return (keyId === undefined ? undefined : keys.known(keyId)) ?? (await keys.open(note));
}

async function* passOn(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
