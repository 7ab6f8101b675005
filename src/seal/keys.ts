// The recipients and identities of one run or command, and the keys of indices that they have opened.
import { randomBytes } from 'node:crypto';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { SealedEnding } from '../model/format/keys.ts';
import { isGpg } from '../model/format/recipient.ts';
import type { SealedNote } from '../model/format/records.ts';
import type { SealSettings } from '../model/format/settings.ts';
import { showPath } from '../model/path.ts';
import { askProgram } from '../native/ask-program.ts';
import { readNamedText } from '../native/named-file.ts';
import { CorruptError } from '../restore/failure.ts';
import type { FileHeader } from './age.ts';
import { collect, Gpg, NoGpgError, NotOpenedError, only } from './gpg.ts';
import { openPayload, sealParts, sealWhole } from './payload.ts';
import { type IndexKey, indexKeyOf, sealValues } from './secrets.ts';

const INDEX_KEY_BYTES = 32;
const COMMAND_MS = 60_000;
/** A key file has a few lines. */
const MOST_IDENTITY_BYTES = 2 ** 20;

interface PartsOptions {
  /** Called for each part that is sealed. */
  readonly release: (part: Uint8Array) => void;
  readonly signal?: AbortSignal | undefined;
}

export class SealKeys {
  readonly recipients: readonly string[];
  /** Undefined: nothing that gpg has sealed is opened. */
  readonly gpg: Gpg | undefined;
  readonly #identities: readonly string[];
  readonly #known = new Map<string, IndexKey>();
  readonly #opened = new Map<string, Promise<IndexKey | undefined>>();
  /** The note that gpg has opened last. */
  #openedByGpg: SealedNote | undefined;

  constructor(recipients: readonly string[], identities: readonly string[], gpg?: Gpg) {
    this.recipients = recipients;
    this.#identities = identities;
    this.gpg = gpg;
  }

  get hasIdentity(): boolean {
    return this.#identities.length > 0;
  }

  /** Of the keys of new objects; undefined: nothing is sealed. */
  get ending(): SealedEnding | undefined {
    return this.recipients.length === 0 ? undefined : endingFor(this.recipients);
  }

  async seal(bytes: Uint8Array, signal?: AbortSignal): Promise<Uint8Array> {
    if (this.ending === '.gpg') return this.#program.sealWhole(bytes, this.recipients, signal);
    return sealWhole(bytes, await this.#header());
  }

  async *sealParts(
    parts: AsyncIterable<Uint8Array>,
    { release, signal }: PartsOptions,
  ): AsyncGenerator<Uint8Array> {
    yield* this.ending === '.gpg'
      ? this.#program.sealParts(parts, this.recipients, { release, signal })
      : sealParts(parts, await this.#header(), release);
  }

  get #program(): Gpg {
    if (this.gpg === undefined) throw new Error('there are recipients of gpg, and no gpg');
    return this.gpg;
  }

  async #header(): Promise<FileHeader> {
    const { newFileHeader } = await import('./age.ts');
    return newFileHeader(this.recipients);
  }

  /** The bytes of an object with this ending. Throws as the two below. */
  opened(ending: SealedEnding, stored: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    return ending === '.gpg' ? this.#byGpg(stored) : openPayload(stored, this.#fileKeyOf);
  }

  /**
   * Throws CorruptError if the header was changed: an identity has opened records. Otherwise status 69, as it may be the
   * identity that is wrong.
   */
  readonly #fileKeyOf = async (header: Uint8Array): Promise<Uint8Array> => {
    const { fileKeyOf } = await import('./age.ts');
    try {
      return await fileKeyOf(header, this.#identities);
    } catch (error) {
      const why = `it is sealed, and no identity that is given opens it: ${reasonOf(error)}`;
      if (this.#known.size > 0) throw new CorruptError(why, { cause: error });
      throw new CaptureError(EXIT.unavailable, why, { hint: OTHER_IDENTITY, cause: error });
    }
  };

  /**
   * Throws CorruptError if the object was changed, also if only its header was: then gpg still opens a record. Otherwise
   * status 69, as it may be the keyring or the agent that lacks the key.
   */
  async *#byGpg(stored: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* this.#program.open(stored);
    } catch (error) {
      if (!(error instanceof NotOpenedError)) throw error;
      const why = `it is sealed, and gpg does not open it: ${error.message}`;
      const before = this.#openedByGpg;
      if (error.isOthers && before !== undefined && (await this.#openNote(before)) !== undefined)
        throw new CorruptError(why, { cause: error });
      throw new CaptureError(EXIT.unavailable, why, { hint: NO_SECRET_KEY_HINT, cause: error });
    }
  }

  /** The key of the index in a record's note; undefined if nothing here opens it. */
  open(note: SealedNote): Promise<IndexKey | undefined> {
    const opening = this.#opened.get(note.key) ?? this.#openOnce(note);
    this.#opened.set(note.key, opening);
    return opening;
  }

  async #openOnce(note: SealedNote): Promise<IndexKey | undefined> {
    const opened = await this.#openNote(note);
    if (opened !== undefined && isOfGpg(note.to)) this.#openedByGpg = note;
    return opened && this.#know(opened);
  }

  async #openNote({ key, to }: SealedNote): Promise<Buffer | undefined> {
    const byGpg = isOfGpg(to);
    if (byGpg ? this.gpg === undefined : !this.hasIdentity) return undefined;
    const stored = only(Buffer.from(key, 'base64'));
    try {
      return await collect(byGpg ? this.#program.open(stored) : openPayload(stored, this.#fileKeyOf));
    } catch (error) {
      if (error instanceof CorruptError || error instanceof CaptureError) return undefined;
      if (!(error instanceof NotOpenedError)) throw error;
      if (error.isOthers) return undefined;
      throw new CaptureError(EXIT.unavailable, `gpg cannot open a record: ${error.message}`, {
        cause: error,
      });
    }
  }

  /** The note that gives this key to the recipients of now. */
  async noteOf({ key, id }: IndexKey, signal?: AbortSignal): Promise<SealedNote> {
    this.#know(key);
    const wrapped = Buffer.from(await this.seal(key, signal)).toString('base64');
    this.#opened.set(wrapped, Promise.resolve(this.#known.get(id)));
    return { to: this.recipients, key: wrapped };
  }

  known(id: string): IndexKey | undefined {
    return this.#known.get(id);
  }

  #know(bytes: Buffer): IndexKey | undefined {
    if (bytes.length !== INDEX_KEY_BYTES) return undefined;
    const key = indexKeyOf(bytes);
    this.#known.set(key.id, key);
    return key;
  }
}

export function endingFor(recipients: readonly string[]): SealedEnding {
  return isOfGpg(recipients) ? '.gpg' : '.age';
}

export function newIndexKey(): IndexKey {
  return indexKeyOf(randomBytes(INDEX_KEY_BYTES));
}

/** For a new note, or why the text in the attempt file is none. */
export function indexKeyFrom(text: string | undefined): IndexKey | undefined {
  const bytes = Buffer.from(text ?? '', 'base64');
  return bytes.length === INDEX_KEY_BYTES ? indexKeyOf(bytes) : undefined;
}

/** A new identity as a file of age has it, and its recipient. */
export async function newIdentityText(): Promise<{ readonly text: string; readonly recipient: string }> {
  const { newIdentity, recipientOf } = await import('./age.ts');
  const identity = await newIdentity();
  const recipient = await recipientOf(identity);
  return { text: `# public key: ${recipient}\n${identity}\n`, recipient };
}

/** All recipients are of one kind. */
export function isOfGpg(recipients: readonly string[]): boolean {
  return recipients.some(isGpg);
}

/**
 * Reads the identities, finds the keys of gpg, and seals something for the recipients, so that nothing can fail once a task
 * runs. Throws status 64 if a recipient or an identity is malformed, if the identity cannot be read, or if this machine
 * cannot seal. `withGpg`: what gpg has sealed is opened.
 */
export async function openSealKeys(
  { to, identityFile, identityCommand }: SealSettings = { to: [] },
  env: NodeJS.ProcessEnv,
  { signal, withGpg = true }: { readonly signal: AbortSignal; readonly withGpg?: boolean },
): Promise<SealKeys> {
  const identities: string[] = [];
  if (identityFile !== undefined)
    identities.push(
      ...(await identitiesIn(
        () => readNamedText(identityFile, MOST_IDENTITY_BYTES),
        `--identity ${showPath(identityFile)}`,
      )),
    );
  if (identityCommand !== undefined) {
    const ask = (): Promise<string> =>
      askProgram('/bin/sh', ['-c', identityCommand], { env, withinMs: COMMAND_MS, signal });
    identities.push(...(await identitiesIn(ask, '--identity-command')));
  }
  const gpg = withGpg ? new Gpg(env) : undefined;
  const recipients = gpg !== undefined && isOfGpg(to) ? await fingerprints(gpg, to, signal) : to;
  const keys = new SealKeys(recipients, identities, gpg);
  if (to.length > 0) await tryToSeal(keys, signal);
  return keys;
}

async function fingerprints(
  gpg: Gpg,
  to: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = new Set<string>();
  for (const one of to) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- a handful
      found.add(await gpg.recipientOf(one, signal));
    } catch (error) {
      signal.throwIfAborted();
      throw new CaptureError(EXIT.usage, `--encrypt ${one}: ${reasonOf(error)}`, {
        hint:
          error instanceof NoGpgError
            ? 'install GnuPG 2.2 or later (gnupg), or use recipients of age'
            : 'gpg --list-keys shows the keys of this machine; gpg --import adds one; a fingerprint names one exactly',
        cause: error,
      });
    }
  }
  return [...found];
}

async function identitiesIn(
  read: () => string | Promise<string>,
  source: string,
): Promise<readonly string[]> {
  const refuse = (why: string, hint: string, cause?: unknown): CaptureError =>
    new CaptureError(EXIT.usage, `${source}: ${why}`, { hint, cause });
  let text: string;
  try {
    text = await read();
  } catch (error) {
    throw refuse(`cannot read the identity: ${reasonOf(error)}`, KEYGEN_HINT, error);
  }
  if (/^(age-encryption\.org\/|-----BEGIN AGE ENCRYPTED FILE)/.test(text))
    throw refuse(
      'this identity has a passphrase, which nobody would type on a machine',
      'age -d <file> writes it without: give that to the job as a secret, or let --identity-command print it',
    );
  const lines = text.split('\n').map((line) => line.trim());
  const identities = lines.filter((line) => line !== '' && !line.startsWith('#'));
  if (identities.length === 0) throw refuse('it holds no identity', KEYGEN_HINT);
  const { recipientOf } = await import('./age.ts');
  for (const [at, identity] of identities.entries()) {
    try {
      // oxlint-disable-next-line no-await-in-loop -- a handful
      await recipientOf(identity);
    } catch {
      // The line may be a secret: it is not shown.
      throw refuse(`identity ${at + 1} is none of age (AGE-SECRET-KEY-1...)`, KEYGEN_HINT);
    }
  }
  return identities;
}

const OTHER_IDENTITY =
  'give the identity of another recipient with --identity; capture verify says what is damaged';
const KEYGEN_HINT = 'capture keygen > key.txt makes one, as age-keygen does';
export const NO_SECRET_KEY_HINT =
  'gpg --list-secret-keys shows what opens it here; a key with a passphrase works only once gpg-agent has the passphrase';

async function tryToSeal(keys: SealKeys, signal: AbortSignal): Promise<void> {
  try {
    await keys.seal(new Uint8Array(1), signal);
    // Records need a cipher of this Node, whoever encrypts the objects.
    sealValues(newIndexKey(), {}, '');
  } catch (error) {
    signal.throwIfAborted();
    throw new CaptureError(EXIT.usage, `--encrypt: nothing can be sealed here: ${reasonOf(error)}`, {
      hint: `check ${keys.ending === '.gpg' ? 'that gpg --encrypt works here' : 'the recipients (age1..., as age-keygen -y prints them)'}, and that this Node has ChaCha20-Poly1305: a FIPS build has not`,
      cause: error,
    });
  }
}
