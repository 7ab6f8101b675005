// Sends results as push.ts asks for them, notes them in the ledger, and says which local copies may be reclaimed once a
// record names their bytes.
import { type FileState, type Fingerprint, sameFingerprint } from '../../model/file/file-state.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { expectsOlder } from '../../model/outcome/other-runs.ts';
import {
  FINGERPRINT_BYTES,
  markRow,
  numberRow,
  readFingerprint,
  writeCount,
  writeFingerprint,
} from '../../model/packed/fields.ts';
import { PackedMap, type Paths, type RowCodec } from '../../model/packed/packed-map.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { reached } from '../../native/failpoint.ts';
import { bornNsOf } from '../../native/files.ts';
import { priorOf, publishResult, type ResultPublisher } from '../../upload/publish-result.ts';
import type { Sent } from '../../upload/send.ts';
import type { Context } from '../run/context.ts';
import { Confirmed } from './overwritten.ts';
import type { PushHandle } from './turns.ts';

/** A stored result whose local copy may be deleted once a record names it. */
export interface Reclaimable {
  readonly path: RelPath;
  readonly fingerprint: Fingerprint;
  /** True if this attempt stored it; else the bytes were durable before (an unchanged baseline). */
  readonly isOurs: boolean;
}

export class Results {
  readonly #context: Context;
  readonly #publisher: ResultPublisher;
  /** What is both here and durable. */
  readonly copies: LocalCopies;
  /** Paths that were reclaimed in this run. If such a path comes again, the task may have appended to an empty file. */
  readonly #reclaimed: PackedMap<true>;
  /** Paths whose older object had to be kept: they are never reclaimed any more. */
  readonly #keepLocal = new Set<RelPath>();
  /** The user has been told that older objects are kept: at the start, or with the first one. */
  #saidKept: boolean;
  /** By path the object in a form that is no longer used; it goes once the path's new record is written. */
  readonly #obsolete = new Map<RelPath, { readonly key: string; readonly file: StoredFile }>();
  /** Paths whose obsolete object is being deleted. */
  readonly #deleting = new Map<RelPath, Promise<unknown>>();
  /** Paths that are being pushed. */
  readonly #underWay = new Set<RelPath>();
  /** By path the time at which we began to read its newest stored content. */
  readonly #publishedMs: PackedMap<number>;
  readonly #confirmed: Confirmed;
  /** Paths of which the user was told that they cannot be stored as they are. */
  readonly #refused = new Set<RelPath>();

  constructor(context: Context) {
    this.#context = context;
    const { scope, fence, paths, history, attempt } = context;
    this.#saidKept = expectsOlder(history, attempt);
    this.copies = new LocalCopies(paths);
    this.#reclaimed = new PackedMap(markRow, paths);
    this.#confirmed = new Confirmed(context);
    this.#publishedMs = new PackedMap(numberRow, paths);
    this.#publisher = {
      ...context.sender,
      scope,
      passFence: (anew, signal) => (anew ? fence.passAnew(signal) : fence.pass(signal)),
    };
  }

  /** True if a push of this path would replace an object that is known. */
  replaces(path: RelPath): boolean {
    return this.#context.ledger.results.has(path) || this.#context.history.foreignResults.has(path);
  }

  /** True if what stands under the path's key was read at or after this instant, in this run. */
  publishedSince(path: RelPath, atMs: number): boolean {
    return (this.#publishedMs.get(path) ?? -Infinity) >= atMs;
  }

  /** From the moment that the file is out of the task's sight, the task would append to an empty file. */
  noteReclaiming(path: RelPath, begins: boolean): void {
    if (begins) this.#reclaimed.set(path, true);
    else this.#reclaimed.delete(path);
  }

  noteReclaimed(path: RelPath): void {
    this.#reclaimed.set(path, true);
    this.copies.forget(path);
  }

  /** A path is never pushed while its obsolete object is deleted: its new content may go to that very key. */
  async push(fileState: FileState, how: PushHandle): Promise<Sent> {
    const { path } = fileState;
    this.#underWay.add(path);
    try {
      await this.#deleting.get(path);
      return await this.#push(fileState, how);
    } finally {
      this.#underWay.delete(path);
    }
  }

  /** True when this attempt has pushed the path, or has looked for its object. */
  isConfirmed(path: RelPath): boolean {
    return this.#confirmed.has(path) || this.#publishedMs.has(path);
  }

  /** After a record: deletes the objects in the other form. That of a path under way waits for the next record. */
  async deleteObsolete(): Promise<void> {
    const { ledger, tidy, signal } = this.#context;
    for (const [path, { key, file }] of this.#obsolete) {
      if (!ledger.isRecorded(file) || this.#underWay.has(path)) continue;
      this.#obsolete.delete(path);
      const deletion = tidy.delete([key], signal);
      this.#deleting.set(
        path,
        deletion.catch(() => undefined),
      );
      await deletion.finally(() => this.#deleting.delete(path));
    }
  }

  /**
   * Files that a record names (or always named) and whose local copy may be deleted, in the order in which they came.
   * `which` says which of them are wanted.
   */
  *readyToReclaim(which: (copy: LocalCopy) => boolean = () => true): Generator<Reclaimable> {
    const { ledger } = this.#context;
    for (const [path, copy] of this.copies) {
      const { fingerprint, isOurs } = copy;
      if (!which(copy)) continue;
      const file = isOurs ? ledger.results.get(path) : undefined;
      if (isOurs && (file === undefined || !ledger.isRecorded(file))) continue;
      yield { path, fingerprint, isOurs };
    }
  }

  /** What this attempt has stored and still stands: files and their newest bytes, however often each was pushed. */
  get stored(): { readonly files: number; readonly bytes: number } {
    const { ledger, attempt, resumed } = this.#context;
    let files = 0;
    let bytes = 0;
    // What a dead sidecar pushed only its records tell. Else what earlier attempts have stored need not be looked through.
    for (const path of resumed === undefined ? this.#publishedMs.keys() : ledger.results.keys()) {
      const file = ledger.results.get(path);
      if (file?.attempt !== attempt) continue;
      files += 1;
      bytes += file.size;
    }
    return { files, bytes };
  }

  /** For how many paths this run has kept an older object. */
  get olderKept(): number {
    return this.#keepLocal.size;
  }

  async #push(fileState: FileState, how: PushHandle): Promise<Sent> {
    const { spoolFirst, signal, onSent, isHeld } = how;
    const context = this.#context;
    const { path } = fileState;
    const startedMs = context.now();
    this.copies.forget(path);
    const known = context.ledger.results.get(path) ?? context.history.foreignResults.get(path);
    const { sent, kept, obsolete } = await publishResult(
      this.#publisher,
      {
        path,
        prior: priorOf(
          known,
          context.attempt,
          this.#reclaimed.has(path) || isMadeAnew(context, known, this.#publishedMs.has(path)),
        ),
        baseline: context.baselines.get(path),
        spoolFirst,
        onSent,
        isHeld,
        keptN: context.ledger.keptOf(path),
      },
      signal,
    );
    if (kept !== undefined) this.#noteKept(path, known, kept);
    switch (sent.kind) {
      case 'stored':
        this.#stored(fileState, sent, obsolete, startedMs);
        break;
      case 'unchanged':
        if (!(await this.#confirmed.isStored(known, sent.md5))) return await this.#push(fileState, how);
        this.#mayGo(fileState, sent.fingerprint, false);
        break;
      case 'gone':
        context.log.debug(`${showPath(path)} was removed by the task before it was stored: withdrawn`, {
          event: 'withdrawn',
          path,
        });
        break;
      case 'torn':
      case 'held':
      case 'has-writer':
        break;
      case 'refused':
        // The final scan finds it again.
        if (!this.#refused.has(path))
          context.log.warn(`${showPath(path)} is not stored: ${sent.why}`, { event: 'not-stored', path });
        this.#refused.add(path);
    }
    return sent;
  }

  #stored(
    fileState: FileState,
    { file, fingerprint }: Extract<Sent, { kind: 'stored' }>,
    obsolete: string | undefined,
    startedMs: number,
  ): void {
    const { ledger, baselines, now, log } = this.#context;
    ledger.noteResult(file);
    reached('push.noted');
    this.#publishedMs.set(file.path, startedMs);
    baselines.stored(file.path);
    this.#reclaimed.delete(file.path);
    if (obsolete !== undefined) this.#obsolete.set(file.path, { key: obsolete, file });
    this.#mayGo(fileState, fingerprint, true);
    const tookMs = now() - startedMs;
    const { path, key, size: bytes } = file;
    log.debug(`stored ${showPath(path)} (${formatBytes(bytes)}) as ${key} in ${tookMs} ms`, {
      event: 'stored',
      role: 'result',
      path,
      key,
      bytes,
      ms: tookMs,
    });
  }

  #mayGo(fileState: FileState, fingerprint: Fingerprint, isOurs: boolean): void {
    const { path, closes } = fileState;
    const roles = this.#context.manifest.rolesOf(path);
    if (roles.input || roles.checkpoint || this.#keepLocal.has(path)) return;
    // A restored file stays until the task itself has closed it anew.
    const inherited = this.#context.inherited.get(path);
    if (inherited !== undefined && sameFingerprint(inherited, fingerprint) && closes === 0) return;
    this.copies.note(path, { fingerprint, closes, isOurs });
  }

  #noteKept(path: RelPath, known: StoredFile | undefined, kept: { key: string; n: number }): void {
    const { ledger, log } = this.#context;
    ledger.noteKept(path, kept.n);
    this.#keepLocal.add(path);
    const of =
      known === undefined
        ? 'that was in the store'
        : `of attempt ${known.attempt} (${formatBytes(known.size)})`;
    const message = `${showPath(path)} ${of} kept as ${kept.key}`;
    const told = { event: 'kept', path, key: kept.key } as const;
    if (this.#saidKept) log.debug(message, told);
    else log.warn(message, { ...told, hint: 'if the task appends to it, declare it as an input too' });
    this.#saidKept = true;
  }
}

/**
 * True if the sidecar that this one replaces may have reclaimed the file: what is there now was created after what is
 * stored was written (statx(2), stx_btime; 0 if the file system does not know it).
 */
function isMadeAnew(
  { resumed, reclaimer, attempt, root }: Context,
  known: StoredFile | undefined,
  isOurs: boolean,
): boolean {
  if (!resumed || reclaimer === undefined || known?.attempt !== attempt || isOurs) return false;
  const bornNs = bornNsOf(root, known.path);
  return bornNs === 0n || bornNs > BigInt(known.mtimeNs);
}

/** A result that is both here and durable. */
export interface LocalCopy {
  /** As it was pushed. */
  readonly fingerprint: Fingerprint;
  /** Closes since the task started, as counted when it was read. */
  readonly closes: number;
  /** True if this attempt pushed it; else the bytes were durable before (an unchanged baseline). */
  readonly isOurs: boolean;
}

export interface Amount {
  readonly files: number;
  readonly bytes: number;
}

const CLOSES = FINGERPRINT_BYTES;
const OURS = CLOSES + 4;

const copyRow: RowCodec<LocalCopy> = {
  bytes: OURS + 1,
  write: ({ fingerprint, closes, isOurs }, row, at) => {
    row[at + OURS] = isOurs ? 1 : 0;
    return writeFingerprint(fingerprint, row, at) && writeCount(closes, row, at + CLOSES);
  },
  read: (row, at) => ({
    fingerprint: readFingerprint(row, at),
    closes: row.readUInt32LE(at + CLOSES),
    isOurs: row[at + OURS] === 1,
  }),
};

/** True if it was not reopened after a close: it will hardly be needed again. */
export function isClosedOnce({ closes }: LocalCopy): boolean {
  return closes <= 1;
}

/**
 * Results whose bytes are durable and that are still in the work directory, so that they could be reclaimed. Knows
 * their number and size at any time without looking at each.
 */
export class LocalCopies {
  readonly #copies: PackedMap<LocalCopy>;
  #bytes = 0;
  #once: Amount = { files: 0, bytes: 0 };

  constructor(paths?: Paths) {
    this.#copies = new PackedMap(copyRow, paths);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Those that were closed once. */
  get once(): Amount {
    return this.#once;
  }

  note(path: RelPath, copy: LocalCopy): void {
    this.forget(path);
    this.#copies.set(path, copy);
    this.#count(copy, 1);
  }

  forget(path: RelPath): void {
    const copy = this.#copies.get(path);
    if (copy === undefined) return;
    this.#copies.delete(path);
    this.#count(copy, -1);
  }

  [Symbol.iterator](): Iterator<[RelPath, LocalCopy]> {
    return this.#copies[Symbol.iterator]();
  }

  #count(copy: LocalCopy, by: 1 | -1): void {
    const { size } = copy.fingerprint;
    this.#bytes += by * size;
    if (!isClosedOnce(copy)) return;
    const { files, bytes } = this.#once;
    this.#once = { files: files + by, bytes: bytes + by * size };
  }
}
