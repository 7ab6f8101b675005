// The recipients and identities of one run or command, and the keys of indices that they have opened.
import { randomBytes } from 'node:crypto';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { SealedNote } from '../model/format/records.ts';
import type { SealSettings } from '../model/format/settings.ts';
import { showPath } from '../model/path.ts';
import { askProgram } from '../native/ask-program.ts';
import { readNamedText } from '../native/named-file.ts';
import { CorruptError } from '../restore/failure.ts';
import type { FileHeader } from './age.ts';
import { openPayload, sealWhole } from './payload.ts';
import { type IndexKey, indexKeyOf } from './secrets.ts';

const INDEX_KEY_BYTES = 32;
const COMMAND_MS = 60_000;
/** A key file has a few lines. */
const MOST_IDENTITY_BYTES = 2 ** 20;

export class SealKeys {
  readonly recipients: readonly string[];
  readonly #identities: readonly string[];
  readonly #known = new Map<string, IndexKey>();
  readonly #opened = new Map<string, Promise<IndexKey | undefined>>();

  constructor(recipients: readonly string[], identities: readonly string[]) {
    this.recipients = recipients;
    this.#identities = identities;
  }

  get hasIdentity(): boolean {
    return this.#identities.length > 0;
  }

  async header(): Promise<FileHeader> {
    const { newFileHeader } = await import('./age.ts');
    return newFileHeader(this.recipients);
  }

  /**
   * Throws CorruptError if the header was changed: an identity has opened records. Otherwise status 69, as it may be the
   * identity that is wrong.
   */
  readonly fileKeyOf = async (header: Uint8Array): Promise<Uint8Array> => {
    const { fileKeyOf } = await import('./age.ts');
    try {
      return await fileKeyOf(header, this.#identities);
    } catch (error) {
      const why = `it is sealed, and no identity that is given opens it: ${reasonOf(error)}`;
      if (this.#known.size > 0) throw new CorruptError(why, { cause: error });
      throw new CaptureError(EXIT.unavailable, why, { hint: OTHER_IDENTITY, cause: error });
    }
  };

  /** The key of the index in a record's note; undefined if no identity here opens it. */
  open({ key }: SealedNote): Promise<IndexKey | undefined> {
    const opening = this.#opened.get(key) ?? this.#openOnce(key);
    this.#opened.set(key, opening);
    return opening;
  }

  async #openOnce(wrapped: string): Promise<IndexKey | undefined> {
    if (!this.hasIdentity) return undefined;
    const pieces: Uint8Array[] = [];
    try {
      for await (const piece of openPayload(one(Buffer.from(wrapped, 'base64')), this.fileKeyOf))
        pieces.push(piece);
    } catch (error) {
      if (error instanceof CorruptError || error instanceof CaptureError) return undefined;
      throw error;
    }
    return this.#know(Buffer.concat(pieces));
  }

  /** The note that gives this key to the recipients of now. */
  async noteOf({ key, id }: IndexKey): Promise<SealedNote> {
    this.#know(key);
    const wrapped = Buffer.from(sealWhole(key, await this.header())).toString('base64');
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

async function* one(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}

/**
 * Reads the identities, and seals something for the recipients, so that nothing can fail once a task runs. Throws status
 * 64 if a recipient or an identity is malformed, if the identity cannot be read, or if this machine cannot seal.
 */
export async function openSealKeys(
  { to, identityFile, identityCommand }: SealSettings = { to: [] },
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
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
  const keys = new SealKeys(to, identities);
  if (to.length > 0) await tryToSeal(keys);
  return keys;
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

async function tryToSeal(keys: SealKeys): Promise<void> {
  try {
    sealWhole(new Uint8Array(1), await keys.header());
  } catch (error) {
    throw new CaptureError(EXIT.usage, `--encrypt: nothing can be sealed here: ${reasonOf(error)}`, {
      hint: 'check the recipients (age1..., as age-keygen -y prints them), and that this Node has ChaCha20-Poly1305: a FIPS build has not',
      cause: error,
    });
  }
}
