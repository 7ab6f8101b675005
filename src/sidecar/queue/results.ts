// Sends results as push.ts asks for them, notes them in the ledger, and says which local copies may be reclaimed once a
// record names their bytes.
import { reasonOf } from '../../model/errors.ts';
import {
  type Durable,
  type FileState,
  type Fingerprint,
  sameFingerprint,
} from '../../model/file/file-state.ts';
import { partialKey } from '../../model/format/keys.ts';
import type { Behind, StoredFile } from '../../model/format/records.ts';
import { expectsOlder } from '../../model/outcome/other-runs.ts';
import { markRow, numberRow, tagRow } from '../../model/packed/fields.ts';
import { PackedMap } from '../../model/packed/packed-map.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { reached } from '../../native/failpoint.ts';
import { bornNsOf } from '../../native/files.ts';
import { ABSENT } from '../../store/contract/store.ts';
import {
  type Prior,
  priorOf,
  promoteResult,
  publishResult,
  type ResultPublisher,
} from '../../upload/publish-result.ts';
import { sendFile, type Sent } from '../../upload/send.ts';
import type { Context } from '../run/context.ts';
import { LocalCopies, type LocalCopy } from './local-copies.ts';
import { Confirmed } from './overwritten.ts';
import { type Doubt, moveToPartial } from './partials.ts';
import { Staged, type StagedObject } from './staged.ts';
import type { PushHandle } from './turns.ts';

/** A stored result whose local copy may be deleted once a record names it. */
export interface Reclaimable {
  readonly path: RelPath;
  readonly fingerprint: Fingerprint;
  /** True if this attempt stored it; else the bytes were durable before (an unchanged baseline). */
  readonly isOurs: boolean;
}

/** No sidecar of an attempt stages one path this often before it has written a record. */
const NUMBERS_EACH = 1_000_000;

interface Named {
  readonly file: StoredFile;
  readonly tag: string;
  /** The object in the other form (compressed or not). */
  readonly obsolete: string | undefined;
  readonly startedMs: number;
  readonly until?: StagedObject;
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
  /** What the task has closed and may still be a death's. */
  readonly staged: Staged;
  /** Called when a staged object has got its name. */
  onNamed: () => void = () => undefined;
  /** By path the next number of a staged object: a key is used once, so that no late deletion meets a new object. */
  readonly #numbers: PackedMap<number>;
  /** By path objects that are no longer used; they go once the path's new record is written. */
  readonly #obsolete = new Map<RelPath, { readonly keys: readonly string[]; readonly file: StoredFile }>();
  /** By path the last thing that is done to its objects: one after the other, as a new one may get an old one's key. */
  readonly #turns = new Map<RelPath, Promise<unknown>>();
  /** By path the time at which we began to read its newest stored content. */
  readonly #publishedMs: PackedMap<number>;
  /** By path the tag of the object that this process has put there. */
  readonly #tags: PackedMap<string>;
  /** By path how many closes the content covers whose put under the result's name has got no answer. */
  readonly #unanswered: PackedMap<number>;
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
    this.#numbers = new PackedMap(numberRow, paths);
    this.#tags = new PackedMap(tagRow, paths);
    this.#unanswered = new PackedMap(numberRow, paths);
    this.staged = new Staged({
      paths,
      now: context.now,
      taskNews: context.taskNews,
      promote: (path, one) => this.#inTurn(path, () => this.#promote(path, one)),
      onFailed: (path, error) => {
        if (!context.outage.isKnown && !context.signal.aborted)
          context.log.warn(`${showPath(path)} is stored, and does not have its name yet: ${reasonOf(error)}`);
      },
    });
    this.#publisher = {
      ...context.sender,
      scope,
      passFence: (anew, signal) => (anew ? fence.passAnew(signal) : fence.pass(signal)),
    };
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

  /** Stores the content, under the result's own name or beside it. */
  push(fileState: FileState, how: PushHandle): Promise<Sent> {
    return this.#inTurn(fileState.path, () => this.#push(fileState, how));
  }

  /** A death may have closed what stands under the result's name: it goes under a key of the attempt's own. */
  async moveAside(path: RelPath, doubt: Doubt, signal: AbortSignal): Promise<void> {
    await moveToPartial(this.#context, { path, doubt, takeNumber: () => this.#takeNumber(path) }, signal);
    this.copies.forget(path);
  }

  /** True when this attempt has pushed the path, or has looked for its object. */
  isConfirmed(path: RelPath): boolean {
    return this.#confirmed.has(path) || this.#publishedMs.has(path);
  }

  /** After a record: deletes what it no longer names. Paths that are under way wait for the next record. */
  async deleteObsolete(): Promise<void> {
    const { ledger, tidy, signal } = this.#context;
    const due = [...this.#obsolete].filter(
      ([path, { file }]) => ledger.isRecorded(file) && !this.#turns.has(path),
    );
    for (const [path] of due) this.#obsolete.delete(path);
    const deletion = tidy.delete(
      due.flatMap(([, { keys }]) => keys),
      signal,
    );
    await Promise.all(due.map(([path]) => this.#inTurn(path, () => deletion)));
    await deletion;
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

  /** True if this state of the result, or one that came after it, stands under its name. */
  isNamed({ path, mtimeNs }: Behind, durable: Durable | undefined): boolean {
    if (durable === undefined || this.staged.newest(path) !== undefined) return false;
    return BigInt(durable.fingerprint.mtimeNs) >= BigInt(mtimeNs);
  }

  /** For how many paths this run has kept an older object. */
  get olderKept(): number {
    return this.#keepLocal.size;
  }

  async #inTurn<T>(path: RelPath, step: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(path) ?? Promise.resolve();
    const turn = before.catch(() => undefined).then(step);
    this.#turns.set(path, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(path) === turn) this.#turns.delete(path);
    }
  }

  async #push(fileState: FileState, how: PushHandle): Promise<Sent> {
    const { path } = fileState;
    this.copies.forget(path);
    if (!this.staged.mayBeNamed(path, fileState.lastClose)) return this.#stage(fileState, how);
    const { spoolFirst, signal, onSent, closeOf } = how;
    const context = this.#context;
    const startedMs = context.now();
    const staged = this.staged.newest(path);
    // What was staged before is older, and must not replace it if it arrives after all.
    this.#unanswered.set(path, fileState.closes);
    const { sent, kept, obsolete } = await publishResult(
      this.#publisher,
      {
        path,
        prior: this.#priorOf(path),
        baseline: staged?.file ?? context.baselines.get(path),
        spoolFirst,
        onSent,
        isStaged: (read) => !this.staged.mayBeNamed(path, closeOf(read)),
        keptN: context.ledger.keptOf(path),
      },
      signal,
    );
    this.#unanswered.delete(path);
    if (kept !== undefined) this.#noteKept(path, kept);
    switch (sent.kind) {
      case 'staged':
        return this.#stage(fileState, how);
      case 'stored':
        this.#named(path, { file: sent.file, tag: sent.tag, obsolete, startedMs });
        this.#mayGo(fileState, sent.fingerprint, true);
        break;
      case 'unchanged':
        // The same bytes once more, and this time whoever closed them lives on.
        if (staged !== undefined) await this.#promote(path, { ...staged, ...sent, closes: fileState.closes });
        else if (!(await this.#isStill(fileState, sent))) return this.#push(fileState, how);
        break;
      default:
        this.#sayNotStored(path, sent);
        this.staged.retry(path);
    }
    return sent;
  }

  /** Stores the content beside what has the result's name. */
  async #stage(fileState: FileState, { spoolFirst, signal, onSent, closeOf }: PushHandle): Promise<Sent> {
    const { path, closes } = fileState;
    const { scope, attempt, sender, ledger, baselines, log, now } = this.#context;
    for (;;) {
      const readMs = now();
      const sent = await sendFile(
        sender,
        {
          path,
          keyOf: (compressed) => partialKey(path, scope, { attempt, n: this.#takeNumber(path) }, compressed),
          baseline: this.staged.newest(path)?.file ?? baselines.get(path),
          spoolFirst,
          onSent,
          precondition: ABSENT,
        },
        signal,
      );
      if (sent.kind === 'exists') continue; // another task's, or a dead sidecar's
      if (sent.kind === 'stored') {
        const file = { ...sent.file, suspect: true };
        ledger.notePartial(file);
        reached('stage.noted');
        log.debug(`stored ${showPath(path)} as ${file.key} until its close is settled`);
        const { fingerprint, tag } = sent;
        // Only now: the task may have vouched for it meanwhile.
        this.staged.note(path, { file, tag, close: closeOf(fingerprint), fingerprint, closes, readMs });
      } else if (sent.kind === 'unchanged' && this.staged.newest(path) === undefined) {
        if (!(await this.#isStill(fileState, sent))) continue;
      } else this.#sayNotStored(path, sent);
      return sent;
    }
  }

  async #promote(path: RelPath, one: StagedObject): Promise<void> {
    if (!this.staged.has(path, one) || one.closes < (this.#unanswered.get(path) ?? 0)) return;
    const { ledger, signal } = this.#context;
    const job = { path, prior: this.#priorOf(path), keptN: ledger.keptOf(path), stagedTag: one.tag };
    const { file, tag, kept, obsolete } = await promoteResult(this.#publisher, job, one.file, signal);
    if (kept !== undefined) this.#noteKept(path, kept);
    this.#named(path, { file, tag, obsolete, startedMs: one.readMs, until: one });
    this.#mayGo({ path, closes: one.closes }, one.fingerprint, true);
    this.onNamed();
  }

  /** False if what was stored of it is no longer there: then it must be sent. */
  async #isStill(
    fileState: FileState,
    { md5, fingerprint }: Extract<Sent, { kind: 'unchanged' }>,
  ): Promise<boolean> {
    const isStill = await this.#confirmed.isStored(this.#known(fileState.path), md5);
    // What this run has put there itself must not go before a record names it.
    if (isStill) this.#mayGo(fileState, fingerprint, this.#publishedMs.has(fileState.path));
    return isStill;
  }

  /** Gives what an earlier attempt staged its name, as nothing newer is stored of it. Resolves to the key. */
  nameEarlier(partial: StoredFile, signal: AbortSignal): Promise<string> {
    const { path, attempt: by } = partial;
    return this.#inTurn(path, async () => {
      const { ledger, attempt } = this.#context;
      const job = {
        path,
        prior: priorOf(this.#known(path), by, { reclaimed: false, tag: undefined }),
        keptN: ledger.keptOf(path),
      };
      const { file, kept, obsolete } = await promoteResult(this.#publisher, job, partial, signal);
      if (kept !== undefined) this.#noteKept(path, kept);
      const named = { ...file, attempt };
      ledger.noteResult(named);
      if (obsolete !== undefined) this.#obsolete.set(path, { keys: [obsolete], file: named });
      return file.key;
    });
  }

  /** A request of a sidecar that died, to delete what it had staged, may still arrive: no key is used again. */
  #takeNumber(path: RelPath): number {
    const { resumed, ledger } = this.#context;
    const first = resumed === 'replaced' ? ledger.firstSeq * NUMBERS_EACH : 0;
    const n = this.#numbers.get(path) ?? first;
    this.#numbers.set(path, n + 1);
    return n;
  }

  #known(path: RelPath): StoredFile | undefined {
    const { ledger, history } = this.#context;
    return ledger.results.get(path) ?? history.foreignResults.get(path);
  }

  #priorOf(path: RelPath): Prior {
    const known = this.#known(path);
    const isGone = this.#reclaimed.has(path) || isMadeAnew(this.#context, known, this.#publishedMs.has(path));
    return priorOf(known, this.#context.attempt, { reclaimed: isGone, tag: this.#tags.get(path) });
  }

  #sayNotStored(path: RelPath, sent: Sent): void {
    const { log } = this.#context;
    if (sent.kind === 'gone')
      log.debug(`${showPath(path)} was removed by the task before it was stored: withdrawn`, {
        event: 'withdrawn',
        path,
      });
    if (sent.kind !== 'refused' || this.#refused.has(path)) return;
    // The final scan finds it again.
    this.#refused.add(path);
    log.warn(`${showPath(path)} is not stored: ${sent.why}`, { event: 'not-stored', path });
  }

  /** The content stands under the result's own name; what was staged up to `until` is no longer needed. */
  #named(path: RelPath, { file, tag, obsolete, startedMs, until }: Named): void {
    const { ledger, baselines, now, log } = this.#context;
    // First: a copy keeps the push id of what was staged.
    const staged = ledger
      .dropPartials(path, until?.file)
      .flatMap(({ key }) => (key === until?.file.key ? [] : [key]));
    ledger.noteResult(file);
    reached('push.noted');
    this.#publishedMs.set(path, startedMs);
    this.#tags.set(path, tag);
    baselines.stored(path);
    this.#reclaimed.delete(path);
    this.#unanswered.delete(path);
    this.staged.named(path, until);
    const keys = [
      ...(this.#obsolete.get(path)?.keys ?? []),
      ...staged,
      ...(obsolete === undefined ? [] : [obsolete]),
    ];
    const unused = keys.filter((key) => key !== file.key);
    if (unused.length > 0) this.#obsolete.set(path, { keys: unused, file });
    const tookMs = now() - startedMs;
    const { key, size: bytes } = file;
    log.debug(`stored ${showPath(path)} (${formatBytes(bytes)}) as ${key} in ${tookMs} ms`, {
      event: 'stored',
      role: 'result',
      path,
      key,
      bytes,
      ms: tookMs,
    });
  }

  #mayGo(
    { path, closes }: Pick<FileState, 'path' | 'closes'>,
    fingerprint: Fingerprint,
    isOurs: boolean,
  ): void {
    const roles = this.#context.manifest.rolesOf(path);
    if (roles.input || roles.checkpoint || this.#keepLocal.has(path)) return;
    // A restored file stays until the task itself has closed it anew.
    const inherited = this.#context.inherited.get(path);
    if (inherited !== undefined && sameFingerprint(inherited, fingerprint) && closes === 0) return;
    this.copies.note(path, { fingerprint, closes, isOurs });
  }

  #noteKept(path: RelPath, kept: { key: string; n: number }): void {
    const { ledger, log } = this.#context;
    const known = this.#known(path);
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
