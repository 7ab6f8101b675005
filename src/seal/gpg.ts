// OpenPGP messages, made and opened by the user's own gpg (2.2 or later), one child for each. What gpg writes is right
// only once it has said so and ended with 0: until then it may be torn, or changed by whoever runs the store. gpg.conf is
// not read; keyring and agent are the user's.
import pLimit from 'p-limit';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { GPG } from '../model/format/recipient.ts';
import { showPath } from '../model/path.ts';
import { MIN_PART_BYTES } from '../model/file/part-size.ts';
import { askProgram } from '../native/ask-program.ts';
import { ProgramFailedError, type ThroughOptions, throughProgram } from '../native/through-program.ts';
import { newMemory } from '../native/memory.ts';
import { CorruptError, noteFailure } from '../restore/failure.ts';

const PROGRAM = 'gpg';
const WORDS = ['--no-options', '--batch', '--no-tty', '--quiet', '--yes'];
/** Nobody is there to type a passphrase: the agent has it, or the key has none. */
const WITHOUT_ASKING = ['--pinentry-mode', 'error'];
const STALL_MS = 60_000;
/** Of all runs of this process. The agent has little locked memory: with many at once, gpg fails. */
const AT_ONCE = 4;
const sealing = pLimit(AT_ONCE);
const opening = pLimit(AT_ONCE);
const MOST_HELD_BYTES = 8 * 2 ** 20;

/**
 * gpg has not opened a message. `isOthers`: it found no secret key for it, or there is no gpg. Its header may also be damaged.
 */
export class NotOpenedError extends Error {
  readonly isOthers: boolean;

  constructor(why: string, { isOthers, cause }: { readonly isOthers: boolean; readonly cause: unknown }) {
    super(why, { cause });
    this.isOthers = isOthers;
  }
}

export class NoGpgError extends Error {
  constructor() {
    super('there is no gpg in PATH');
  }
}

export class Gpg {
  readonly #env: NodeJS.ProcessEnv;
  readonly #stallMs: number;
  #secretKeys: Promise<boolean> | undefined;

  constructor(env: NodeJS.ProcessEnv, { stallMs = STALL_MS }: { readonly stallMs?: number } = {}) {
    this.#env = { ...env, LC_ALL: 'C' };
    this.#stallMs = stallMs;
  }

  /** The one usable key of this id or address, as `gpg:<fingerprint>`. Throws an Error with the reason if there is none. */
  async recipientOf(recipient: string, signal: AbortSignal): Promise<string> {
    const id = recipient.slice(GPG.length);
    const found = keysIn(await this.#ask(['--list-keys', '--', id.includes('@') ? `<${id}>` : id], signal));
    const usable = found.filter(({ why }) => why === undefined);
    const [key] = usable;
    if (key === undefined) throw new Error(found[0]?.why ?? 'no such key');
    if (usable.length > 1)
      throw new Error(`${usable.length} keys match: ${usable.map((one) => one.fingerprint).join(', ')}`);
    return GPG + key.fingerprint;
  }

  /** Is there a secret key at all? */
  hasSecretKey(signal: AbortSignal): Promise<boolean> {
    this.#secretKeys ??= this.#ask(['--list-secret-keys'], signal).then(
      (text) => /^sec:/m.test(text),
      () => false,
    );
    return this.#secretKeys;
  }

  /** One message for all recipients. `release` is called for each piece that gpg has read. */
  async *seal(
    source: AsyncIterable<Uint8Array>,
    recipients: readonly string[],
    how: Pick<ThroughOptions, 'signal' | 'release'> = {},
  ): AsyncGenerator<Uint8Array> {
    const to = recipients.flatMap((one) => ['--recipient', one.slice(GPG.length)]);
    const words = ['--trust-model', 'always', '--compress-algo', 'none', ...to, '--encrypt'];
    const statuses = new Set<string>();
    const given = noteFailure(source);
    let isEmpty = true;
    try {
      for await (const piece of this.#through(words, given.body, statuses, how)) {
        isEmpty = false;
        yield piece;
      }
    } catch (error) {
      throw given.failure() ?? (how.signal?.aborted === true ? how.signal.reason : cannot('encrypt', error));
    }
    if (isEmpty || !statuses.has('END_ENCRYPTION'))
      throw cannot('encrypt', new Error('it has written no message'));
  }

  /** For few bytes: a few at once. */
  async sealWhole(
    bytes: Uint8Array,
    recipients: readonly string[],
    signal?: AbortSignal,
  ): Promise<Uint8Array> {
    return sealing(() => collect(this.seal(only(bytes), recipients, { signal })));
  }

  /**
   * The object in as many parts, each of hardly another size than the one that it is made of. The last part leaves only
   * when gpg has ended well. `release` is called for each part that gpg has read.
   */
  async *sealParts(
    parts: AsyncIterable<Uint8Array>,
    recipients: readonly string[],
    how: Pick<ThroughOptions, 'signal' | 'release'>,
  ): AsyncGenerator<Uint8Array> {
    const rest = parts[Symbol.asyncIterator]();
    const { value: first } = await rest.next();
    // Room for what the format adds, so that there are no more parts.
    const partBytes = Math.ceil(Math.max(MIN_PART_BYTES, first?.length ?? 0) * 1.001) + 2 ** 16;
    let part: Uint8Array | undefined;
    let filledBytes = 0;
    for await (const piece of this.seal(startingWith(first, rest), recipients, how)) {
      for (let at = 0; at < piece.length;) {
        if (part !== undefined && filledBytes === partBytes) {
          yield part;
          part = undefined;
        }
        if (part === undefined) filledBytes = 0;
        part ??= newMemory(partBytes);
        const taken = piece.subarray(at, at + partBytes - filledBytes);
        part.set(taken, filledBytes);
        filledBytes += taken.length;
        at += taken.length;
      }
    }
    if (part !== undefined) yield part.subarray(0, filledBytes);
  }

  /**
   * What was sealed. It is right only if it ends without an error. Throws {@link NotOpenedError}; CorruptError if it was
   * changed or cut short; errors of `stored` unchanged.
   */
  async *open(stored: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const release = await placeToOpen();
    const statuses = new Set<string>();
    const source = noteFailure(stored);
    // A small message is not passed on before its end.
    let held: Uint8Array[] | undefined = [];
    let bytes = 0;
    try {
      for await (const piece of this.#through([...WITHOUT_ASKING, '--decrypt'], source.body, statuses)) {
        bytes += piece.length;
        if (held === undefined) yield piece;
        else held.push(piece);
        if (held === undefined || bytes <= MOST_HELD_BYTES) continue;
        yield* held;
        held = undefined;
      }
    } catch (error) {
      if (source.failure() !== undefined) throw source.failure();
      const missing = notInstalled(error);
      const isSaid = statuses.has('DECRYPTION_FAILED') || statuses.has('NODATA');
      const hadKey = statuses.has('DECRYPTION_INFO');
      if (isSaid && (hadKey || !statuses.has('ENC_TO'))) throw changed(error);
      const isOthers = missing !== undefined || error instanceof ProgramFailedError;
      throw new NotOpenedError(reasonOf(missing ?? error), { isOthers, cause: error });
    } finally {
      release();
    }
    // gpg also ends with 0 if it has skipped what it does not know.
    if (!statuses.has('DECRYPTION_OKAY')) throw changed(undefined);
    yield* held ?? [];
  }

  #through(
    words: readonly string[],
    source: AsyncIterable<Uint8Array>,
    statuses: Set<string>,
    how: Pick<ThroughOptions, 'signal' | 'release'> = {},
  ): AsyncGenerator<Uint8Array> {
    const onStatus = (line: string): void => {
      const [mark, word = ''] = line.split(' ', 2);
      if (mark === '[GNUPG:]') statuses.add(word);
    };
    const options = { ...how, env: this.#env, stallMs: this.#stallMs, onStatus };
    return throughProgram(PROGRAM, [...WORDS, '--status-fd', '3', ...words], source, options);
  }

  async #ask(words: readonly string[], signal: AbortSignal): Promise<string> {
    const args = [...WORDS, '--with-colons', ...words];
    try {
      return await askProgram(PROGRAM, args, { env: this.#env, withinMs: this.#stallMs, signal });
    } catch (error) {
      throw notInstalled(error) ?? new Error(showPath(reasonOf(error)), { cause: error });
    }
  }
}

/** Resolves when few enough are under way, to what frees the place. */
function placeToOpen(): Promise<() => void> {
  return new Promise((resolve) => {
    void opening(() => new Promise<void>(resolve));
  });
}

interface ListedKey {
  readonly fingerprint: string;
  /** Undefined if it can be encrypted to. */
  readonly why: string | undefined;
}

const VALIDITY: Readonly<Record<string, string>> = {
  d: 'the key is disabled',
  e: 'the key has expired',
  i: 'the key is invalid',
  r: 'the key is revoked',
};

/** The output of --with-colons (doc/DETAILS of GnuPG). */
function keysIn(text: string): readonly ListedKey[] {
  const keys: ListedKey[] = [];
  for (const block of text.split(/^(?=pub:)/m)) {
    const rows = block.split('\n').map((line) => line.split(':'));
    const [type, validity = '', , , , , , , , , , capabilities = ''] = rows[0] ?? [];
    const fingerprint = rows.find(([kind]) => kind === 'fpr')?.[9];
    if (type !== 'pub' || fingerprint === undefined) continue;
    // In capitals: what the key as a whole can be used for, now.
    const isFor = capabilities.includes('E') && !capabilities.includes('D');
    keys.push({
      fingerprint,
      why: VALIDITY[validity] ?? (isFor ? undefined : 'no usable key for encryption'),
    });
  }
  return keys;
}

function cannot(what: string, error: unknown): CaptureError {
  const why = reasonOf(notInstalled(error) ?? error);
  return new CaptureError(EXIT.unavailable, `gpg cannot ${what}: ${why}`, { cause: error });
}

function notInstalled(error: unknown): NoGpgError | undefined {
  return errnoOf(error) === 'ENOENT' ? new NoGpgError() : undefined;
}

function changed(cause: unknown): CorruptError {
  return new CorruptError('it is sealed, and was changed or cut short', { cause });
}

export async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

async function* startingWith(
  first: Uint8Array | undefined,
  rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    if (first !== undefined) yield first;
    yield* { [Symbol.asyncIterator]: () => rest };
  } finally {
    await rest.return?.();
  }
}

export async function* only(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
