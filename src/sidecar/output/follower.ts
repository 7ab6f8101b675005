// Follows one file that the task writes its output to, and stores new output as segments. Holds at most one segment in
// memory, and never more than the limit in the store: of endless output the beginning and the newest part are kept.
import fs from 'node:fs';
import { promisify } from 'node:util';
import { outputKey, type OutputStream } from '../../model/format/output-keys.ts';
import { FIRST_BYTES, mayBeEmpty } from '../../model/output-copy.ts';
import { punchHole } from '../../native/files.ts';
import { Buffers } from '../../read/buffers.ts';
import type { Compressor } from '../../read/encode.ts';
import {
  ABSENT,
  exactly,
  type Precondition,
  type PutOptions,
  type Store,
  StoreError,
} from '../../store/contract/store.ts';
import { atLimitedRate } from '../../upload/bandwidth.ts';
import type { Needs } from '../run/context.ts';
import type { OutputSource } from './sources.ts';

/** The part of the context that a follower uses. */
export type FollowerNeeds = Needs<'scope' | 'attempt' | 'runToken' | 'store' | 'tidy' | 'sender'>;

export interface FollowerOptions {
  readonly context: FollowerNeeds;
  readonly source: OutputSource;
  /** The limit of what is kept in the store, uncompressed. */
  readonly limitBytes: number;
  /** Of more than the limit only the end is kept, and not its beginning. */
  readonly isEndOnly: boolean;
  readonly compressor: Compressor | undefined;
  readonly level: number;
  /** The last segment of this stream that a dead sidecar has stored. */
  readonly before: (signal: AbortSignal) => Promise<StoredSegment | undefined>;
}

/** A segment in its stored form. */
export interface StoredSegment {
  /** Its offset in the stream. */
  readonly first: number;
  /** Its offset in the file. */
  readonly at: number;
  readonly sizeBytes: number;
}

/**
 * A segment grows, and is replaced, until it has this many bytes: otherwise a day of slow output would be 1,400
 * objects.
 */
const SEALED_BYTES = FIRST_BYTES;
/** Bytes that are read and sent at once. */
const MOST_BYTES = 2 * 2 ** 20;

/** How many times another segment may be stored between a look and our put. */
const MOST_ROUNDS = 5;

/** A frame of incompressible bytes is longer than they are (ZSTD_compressBound). */
const buffers = new Buffers(MOST_BYTES + 64 * 2 ** 10, 0);

/** In memory of its own: a request may use its body longer than the store says. */
async function packed(compressor: Compressor, bytes: Uint8Array, level: number): Promise<Uint8Array> {
  const frame = await compressor.once(bytes, level, buffers);
  const body = Buffer.from(frame);
  buffers.giveBack(frame);
  return body;
}

const read = promisify(fs.read);
const fstat = promisify(fs.fstat);

export class Follower {
  readonly #options: FollowerOptions;
  /** The segment that grows: its offsets in the stream and in the file, and how much of it is stored. */
  #first = 0;
  #at: number;
  #storedBytes = 0;
  #isBegun = false;
  /** The object under the key that was put last. */
  #standing: { readonly key: string; readonly precondition: Precondition } | undefined;
  /** Segments of this process, oldest first: they may be deleted to keep the limit. */
  readonly #kept: { readonly key: string; readonly sizeBytes: number }[] = [];

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#at = options.source.fromBytes;
  }

  get stream(): OutputStream {
    return this.#options.source.stream;
  }

  /** Something of the stream is in the store. */
  get hasStored(): boolean {
    return this.#first + this.#storedBytes > 0;
  }

  /** Stores everything that the file holds at the time of the call. Throws the store's errors and read errors. */
  async store(signal: AbortSignal): Promise<void> {
    const { source, limitBytes, isEndOnly } = this.#options;
    if (!this.#isBegun) await this.#goOn(signal);
    const endBytes = (await fstat(source.fd)).size;
    if (endBytes < this.#at + this.#storedBytes) this.#cutBack();
    const isFresh = this.#first + this.#storedBytes === 0;
    if (!isEndOnly && isFresh && (source.isCopy || endBytes - this.#at > limitBytes))
      await this.#putTo(this.#at + SEALED_BYTES, signal);
    this.#skipTo(endBytes);
    while (this.#at + this.#storedBytes < endBytes) {
      signal.throwIfAborted();
      if (this.#storedBytes >= SEALED_BYTES) {
        this.#seal();
        await this.#empty();
      }
      if (!(await this.#putTo(endBytes, signal))) return;
    }
  }

  /** False if the file was truncated meanwhile: the next look sees it. */
  async #putTo(endBytes: number, signal: AbortSignal): Promise<boolean> {
    const bytes = await this.#readTo(endBytes);
    const { fd, isCopy } = this.#options.source;
    const sizeBytes = isCopy ? (await fstat(fd)).size : 0;
    if (isCopy && mayBeEmpty([this.#at, this.#at + bytes.length], sizeBytes, this.#options.limitBytes)) {
      // The task writes faster than we store.
      this.#skipTo(sizeBytes);
      return true;
    }
    const isLonger = bytes.length > this.#storedBytes;
    if (isLonger) await this.#put(bytes, signal);
    return isLonger;
  }

  /** Not before it is needed: a store that does not answer must not keep the task from starting. */
  async #goOn(signal: AbortSignal): Promise<void> {
    const before = await this.#options.before(signal);
    if (before !== undefined) {
      this.#first = before.first;
      this.#at = before.at;
      this.#storedBytes = before.sizeBytes;
    }
    this.#isBegun = true;
  }

  /** The file was emptied or replaced in place (logrotate, copytruncate): continues from its beginning. */
  #cutBack(): void {
    this.#seal();
    this.#at = 0;
  }

  #seal(): void {
    this.#first += this.#storedBytes;
    this.#at += this.#storedBytes;
    this.#storedBytes = 0;
  }

  /** What is stored in whole segments is needed no more, not even by a successor of ours. */
  async #empty(): Promise<void> {
    const { fd, isCopy } = this.#options.source;
    // On a file system that cannot do it, the launcher stops copying before the file is too large.
    if (isCopy) await punchHole(fd, 0, this.#at).catch(() => undefined);
  }

  /** More than is ever kept was written since the last look: what lies between is not even read. */
  #skipTo(endBytes: number): void {
    const keptBytes = this.#options.limitBytes - (this.#kept[0]?.sizeBytes ?? 0);
    const tooManyBytes = endBytes - this.#at - this.#storedBytes - keptBytes;
    if (tooManyBytes <= 0) return;
    this.#seal();
    this.#first += tooManyBytes;
    this.#at += tooManyBytes;
  }

  async #readTo(endBytes: number): Promise<Uint8Array> {
    const buffer = Buffer.allocUnsafe(Math.min(MOST_BYTES, endBytes - this.#at));
    let filled = 0;
    while (filled < buffer.length) {
      const { bytesRead } = await read(
        this.#options.source.fd,
        buffer,
        filled,
        buffer.length - filled,
        this.#at + filled,
      );
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return buffer.subarray(0, filled);
  }

  async #put(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    const { context, compressor, level, source } = this.#options;
    const { scope, attempt, runToken, store, sender } = context;
    // Compressed each time, or never: a segment that grows keeps its key.
    const body = compressor === undefined ? bytes : await packed(compressor, bytes, level);
    const segment = {
      attempt,
      stream: source.stream,
      first: this.#first,
      compressed: compressor !== undefined,
    };
    const key = outputKey(scope, segment);
    await atLimitedRate(sender.bandwidth, body, signal);
    const meta = { push: sender.newId(), run: runToken, size: String(bytes.length), at: String(this.#at) };
    await this.#replace(store, key, body, { meta, signal });
    this.#storedBytes = bytes.length;
    await this.#keep(key, bytes.length, signal);
  }

  /** A segment grows under its key: a late, shorter one must not replace it. */
  async #replace(store: Store, key: string, body: Uint8Array, options: PutOptions): Promise<void> {
    let precondition = this.#standing?.key === key ? this.#standing.precondition : ABSENT;
    for (let round = 0; round < MOST_ROUNDS; round += 1) {
      const outcome = await store.put(key, body, { ...options, precondition });
      if (outcome.kind === 'stored') {
        this.#standing = { key, precondition: exactly(outcome) };
        return;
      }
      // A dead sidecar of this attempt has left it.
      precondition = exactly(await store.head(key, options.signal));
    }
    throw new StoreError('transient', `${key} was replaced by another each time that it was to be stored`);
  }

  /** The first segment stays, because programs describe there what they do. Among the others the oldest are deleted. */
  async #keep(key: string, sizeBytes: number, signal: AbortSignal): Promise<void> {
    const kept = this.#kept;
    if (kept.at(-1)?.key === key) kept.pop();
    kept.push({ key, sizeBytes });
    let total = kept.reduce((sum, one) => sum + one.sizeBytes, 0);
    const surplus: string[] = [];
    while (total > this.#options.limitBytes && kept.length > 2) {
      const [oldest] = kept.splice(1, 1);
      if (oldest === undefined) break;
      total -= oldest.sizeBytes;
      surplus.push(oldest.key);
    }
    await this.#options.context.tidy.delete(surplus, signal);
  }
}
