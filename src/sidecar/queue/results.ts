// Sends results as push.ts asks, notes them in the ledger, and says which local copies may be reclaimed because a
// record names their bytes.
import { reasonOf } from '../../model/errors.ts';
import type { Baseline } from '../../model/file/baseline.ts';
import { type FileState, type Fingerprint, sameFingerprint } from '../../model/file/file-state.ts';
import { isStateStored } from '../../model/checkpoint/lacking.ts';
import type { ManifestPatterns } from '../../model/file/manifest.ts';
import { partialKey } from '../../model/format/keys.ts';
import type { Behind, StoredFile } from '../../model/format/records.ts';
import { expectsOlder } from '../../model/outcome/other-runs.ts';
import { PackedMap } from '../../model/packed/packed-map.ts';
import { NO_RESULT, type ResultRow, resultRow } from '../../model/packed/result-row.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { reached } from '../../native/failpoint.ts';
import { bornNsOf } from '../../native/files.ts';
import { inShortTurns } from '../../native/turns.ts';
import { ABSENT } from '../../store/contract/store.ts';
import {
  copyToKept,
  type Prior,
  priorOf,
  promoteResult,
  publishResult,
  type ResultPublisher,
} from '../../upload/publish-result.ts';
import { sendFile, type Sent } from '../../upload/send.ts';
import type { Context } from '../run/context.ts';
import { LocalCopies, type LocalCopy } from './local-copies.ts';
import { isStillStored } from './overwritten.ts';
import { type Doubt, moveToPartial } from './partials.ts';
import { Staged, type StagedObject } from './staged.ts';
import type { PushHandle } from './turns.ts';
import { Unanswered } from './unanswered.ts';

/** A stored result whose local copy may be deleted once a record names it. */
export interface Reclaimable {
  readonly path: RelPath;
  readonly fingerprint: Fingerprint;
  /** True if this attempt stored it; false if the bytes were durable before (an unchanged baseline). */
  readonly isOurs: boolean;
}

/** A sidecar of an attempt stages one path less often than this before it has written a record. */
const NUMBERS_EACH = 1_000_000;

interface Named {
  readonly file: StoredFile;
  readonly tag: string;
  /** The same result's object in the other form (compressed or not). */
  readonly obsolete: string | undefined;
  readonly startedMs: number;
  readonly until?: StagedObject;
}

export class Results {
  readonly #context: Context;
  readonly #publisher: ResultPublisher;
  /** Results that are durable and still in the work directory. */
  readonly copies: LocalCopies;
  /** By path. Each number of a staged object is used once, so that a late deletion never meets a new object. */
  readonly #rows: PackedMap<ResultRow>;
  #olderKept = 0;
  /** The user knows that older objects are kept: from the start, or since the first one. */
  #saidKept: boolean;
  /** Content that the task has closed, whose close may still turn out to come from a dying process. */
  readonly staged: Staged;
  readonly unanswered: Unanswered;
  /** Called when an object that was stored before counts as the result from now on. */
  onNamed: () => void = () => undefined;
  /** By path, objects that are no longer used. They are deleted once the path's new record is written. */
  readonly #obsolete = new Map<RelPath, { readonly keys: readonly string[]; readonly file: StoredFile }>();
  /** By path, the last operation on its objects. They run one by one, as a new object may get an old one's key. */
  readonly #turns = new Map<RelPath, Promise<unknown>>();

  constructor(context: Context) {
    this.#context = context;
    const { scope, fence, paths, history, attempt } = context;
    this.#saidKept = expectsOlder(history, attempt);
    this.copies = new LocalCopies(paths);
    this.#rows = new PackedMap(resultRow, paths);
    this.unanswered = new Unanswered(context.sender.newId);
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

  /** True if the content under the path's key was read at or after this instant, in this run. */
  publishedSince(path: RelPath, atMs: number): boolean {
    return (this.#row(path).publishedMs ?? -Infinity) >= atMs;
  }

  /** From the moment that the file disappears from the task's sight, the task would append to an empty file. */
  noteReclaiming(path: RelPath, begins: boolean): void {
    this.#note(path, { isReclaimed: begins });
  }

  noteReclaimed(path: RelPath): void {
    this.#note(path, { isReclaimed: true });
    this.copies.forget(path);
  }

  /** Stores the content under the result's own name, or beside it. */
  push(fileState: FileState, how: PushHandle): Promise<Sent> {
    return this.#inTurn(fileState.path, () => this.#push(fileState, how));
  }

  /**
   * Moves what stands under the result's name to a partial key of this attempt, as its close may come from a dying
   * process.
   */
  async moveAside(path: RelPath, doubt: Doubt, signal: AbortSignal): Promise<void> {
    await moveToPartial(this.#context, { path, doubt, takeNumber: () => this.#takeNumber(path) }, signal);
    this.copies.forget(path);
  }

  /** True if this attempt has pushed the path, or has looked for its object. */
  isConfirmed(path: RelPath): boolean {
    const { isConfirmed, publishedMs } = this.#row(path);
    return isConfirmed || publishedMs !== undefined;
  }

  /**
   * After a record: deletes objects that it no longer names. Paths with an operation under way wait for the next
   * record.
   */
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
   * Files that a record names (or always named) and whose local copy may be deleted, in the order in which they were
   * noted. `which` selects among them.
   */
  async *readyToReclaim(which: (copy: LocalCopy) => boolean = () => true): AsyncGenerator<Reclaimable> {
    const { ledger } = this.#context;
    for await (const [path, copy] of inShortTurns(this.copies)) {
      const { fingerprint, isOurs } = copy;
      if (!which(copy)) continue;
      const file = isOurs ? ledger.results.get(path) : undefined;
      if (isOurs && (file === undefined || !ledger.isRecorded(file))) continue;
      yield { path, fingerprint, isOurs };
    }
  }

  /**
   * The files that this attempt has stored and that still stand, with their newest bytes, however often each was
   * pushed.
   */
  async stored(): Promise<{ readonly files: number; readonly bytes: number }> {
    const { ledger, attempt, resumed } = this.#context;
    let files = 0;
    let bytes = 0;
    // What a dead sidecar pushed is known only from its records. Otherwise results of earlier attempts need no look.
    const paths = resumed === undefined ? this.#rows.keys() : ledger.results.keys();
    for await (const path of inShortTurns(paths)) {
      const file = ledger.results.get(path);
      if (file?.attempt !== attempt) continue;
      files += 1;
      bytes += file.size;
    }
    return { files, bytes };
  }

  /** True if this state of the result, or a later one, stands under its name. */
  isNamed(behind: Behind, file: FileState | undefined): boolean {
    const { ledger, attempt } = this.#context;
    const { path, size, mtimeNs } = behind;
    if (file?.durable === undefined || this.staged.newest(path) !== undefined) return false;
    const { fingerprint } = file.durable;
    const isNewest = !file.pending && !file.pushing;
    // It may have been found unchanged: then nothing new stands there.
    if (isNewest && fingerprint.size === size && fingerprint.mtimeNs === mtimeNs) return true;
    const stored = ledger.results.get(path);
    return stored !== undefined && isStateStored(stored, behind, attempt);
  }

  /** The number of paths for which this run has kept an older object. */
  get olderKept(): number {
    return this.#olderKept;
  }

  #row(path: RelPath): ResultRow {
    return this.#rows.get(path) ?? NO_RESULT;
  }

  #note(path: RelPath, part: Partial<ResultRow>): void {
    this.#rows.set(path, { ...this.#row(path), ...part });
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
    const pushing = this.unanswered.begin(path, fileState.closes);
    const { sent, kept, obsolete } = await publishResult(
      this.#publisher,
      {
        path,
        prior: this.#priorOf(path),
        baseline: this.#baselineOf(fileState),
        spoolFirst,
        onSent,
        pushOf: pushing.idFor,
        isStaged: (read) => !this.staged.mayBeNamed(path, closeOf(read)),
        keptN: context.ledger.keptOf(path),
      },
      signal,
    );
    pushing.answered();
    if (kept !== undefined) this.#noteKept(path, kept);
    switch (sent.kind) {
      case 'staged':
        return this.#stage(fileState, how);
      case 'stored':
        this.#named(path, { file: sent.file, tag: sent.tag, obsolete, startedMs });
        this.#mayGo(fileState, sent.fingerprint, true);
        break;
      case 'unchanged':
        // The same bytes again, and this time the process that closed them is still alive.
        if (staged !== undefined) await this.#promote(path, { ...staged, ...sent, closes: fileState.closes });
        else if (!(await this.#isStill(fileState, sent))) return this.#push(fileState, how);
        break;
      default:
        this.#sayNotStored(path, sent);
        this.staged.retry(path);
    }
    return sent;
  }

  /** Stores the content beside the object that has the result's name. */
  async #stage(fileState: FileState, { spoolFirst, signal, onSent, closeOf }: PushHandle): Promise<Sent> {
    const { path, closes } = fileState;
    const { scope, attempt, sender, ledger, log, now } = this.#context;
    for (;;) {
      const readMs = now();
      const sent = await sendFile(
        sender,
        {
          path,
          keyOf: (compressed) => partialKey(path, scope, { attempt, n: this.#takeNumber(path) }, compressed),
          baseline: this.#baselineOf(fileState),
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
        // Only now: the task may have vouched for the close meanwhile.
        this.staged.note(path, { file, tag, close: closeOf(fingerprint), fingerprint, closes, readMs });
      } else if (sent.kind === 'unchanged' && this.staged.newest(path) === undefined) {
        if (!(await this.#isStill(fileState, sent))) continue;
      } else this.#sayNotStored(path, sent);
      return sent;
    }
  }

  async #promote(path: RelPath, one: StagedObject): Promise<void> {
    // What is newer must not be replaced if it arrives after all.
    if (!this.staged.has(path, one) || one.closes < this.unanswered.closes(path)) return;
    const { ledger, signal } = this.#context;
    const job = { path, prior: this.#priorOf(path), keptN: ledger.keptOf(path), stagedTag: one.tag };
    const { file, tag, kept, obsolete } = await promoteResult(this.#publisher, job, one.file, signal);
    if (kept !== undefined) this.#noteKept(path, kept);
    this.#named(path, { file, tag, obsolete, startedMs: one.readMs, until: one });
    this.#mayGo({ path, closes: one.closes }, one.fingerprint, true);
    this.onNamed();
  }

  /** Content that need not be sent again. None while nobody knows what stands under the name. */
  #baselineOf({ path, closes }: FileState): Baseline | undefined {
    if (this.unanswered.has(path)) return undefined;
    return this.staged.newest(path)?.file ?? this.#context.baselines.get(path, closes > 0);
  }

  /** False if the object that was stored for it is gone: then the content must be sent. */
  async #isStill(
    fileState: FileState,
    { md5, fingerprint }: Extract<Sent, { kind: 'unchanged' }>,
  ): Promise<boolean> {
    const { path } = fileState;
    const known = this.#known(path);
    const isEarlier = known !== undefined && known.attempt !== this.#context.attempt && known.md5 === md5;
    if (isEarlier && !this.#row(path).isConfirmed) {
      if (!(await isStillStored(this.#context, known))) return false;
      this.#note(path, { isConfirmed: true });
    }
    if (isEarlier && fileState.closes > 0) this.#noteWrittenAgain(known);
    // A local copy that this run has stored must not be reclaimed before a record names it.
    this.#mayGo(fileState, fingerprint, this.#row(path).publishedMs !== undefined);
    return true;
  }

  /**
   * The task has written a result again that had lacked content, and the store holds exactly these bytes: from now on it
   * lacks nothing, and counts as stored by this attempt.
   */
  #noteWrittenAgain(known: StoredFile): void {
    const { ledger, lacking, attempt } = this.#context;
    const isLacking = lacking.some(({ path, open }) => path === known.path && !open);
    if (!isLacking || ledger.results.get(known.path)?.push !== known.push) return;
    ledger.noteResult({ ...known, attempt });
    this.onNamed();
  }

  /** Gives an earlier attempt's staged object its name, as nothing newer is stored. Resolves to the key. */
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

  /** Keeps an earlier attempt's staged object as `.~n~`, beside the result that does not contain it. */
  keepEarlier(partial: StoredFile, signal: AbortSignal): Promise<void> {
    const { path } = partial;
    return this.#inTurn(path, async () => {
      const job = { path, keptN: this.#context.ledger.keptOf(path) };
      this.#noteKept(path, await copyToKept(this.#publisher, job, partial, signal), partial);
    });
  }

  /** A dead sidecar's request to delete what it had staged may still arrive: no key is used again. */
  #takeNumber(path: RelPath): number {
    const { resumed, ledger } = this.#context;
    const first = resumed === 'replaced' ? ledger.firstSeq * NUMBERS_EACH : 0;
    const n = this.#row(path).nextNumber || first;
    this.#note(path, { nextNumber: n + 1 });
    return n;
  }

  #known(path: RelPath): StoredFile | undefined {
    const { ledger, history } = this.#context;
    return ledger.results.get(path) ?? history.foreignResults.get(path);
  }

  #priorOf(path: RelPath): Prior {
    const known = this.#known(path);
    const { isReclaimed, publishedMs, tag } = this.#row(path);
    const isGone = isReclaimed || isMadeAnew(this.#context, known, publishedMs !== undefined);
    return priorOf(known, this.#context.attempt, { reclaimed: isGone, tag });
  }

  #sayNotStored(path: RelPath, sent: Sent): void {
    const { log } = this.#context;
    if (sent.kind === 'gone')
      log.debug(`${showPath(path)} was removed by the task before it was stored: withdrawn`, {
        event: 'withdrawn',
        path,
      });
    if (sent.kind !== 'refused' || this.#row(path).isRefused) return;
    // The final scan finds it again.
    this.#note(path, { isRefused: true });
    log.warn(`${showPath(path)} is not stored: ${sent.why}`, { event: 'not-stored', path });
  }

  /** The content stands under the result's own name. What was staged up to `until` is no longer needed. */
  #named(path: RelPath, { file, tag, obsolete, startedMs, until }: Named): void {
    const { ledger, baselines, now, log } = this.#context;
    // This comes first: a copy keeps the push id of the staged object.
    const staged = ledger
      .dropPartials(path, until?.file)
      .flatMap(({ key }) => (key === until?.file.key ? [] : [key]));
    const replaced = ledger.noteResult(file);
    reached('push.noted');
    this.#sayReplaced(path, replaced);
    this.#note(path, { publishedMs: startedMs, tag, isReclaimed: false });
    this.unanswered.named(path);
    baselines.stored(path);
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

  /** What was stored as a file is a directory now, or the reverse. */
  #sayReplaced(path: RelPath, [first, ...others]: readonly StoredFile[]): void {
    if (first === undefined) return;
    const more = others.length === 0 ? '' : `, and ${plural(others.length, 'object')} more`;
    const by = `${showPath(first.path)} cannot stand beside ${showPath(path)}, and is no result any more`;
    this.#context.log.warn(`${by}: its object stays as ${first.key}${more}`, {
      event: 'kept',
      path: first.path,
      key: first.key,
    });
  }

  #mayGo(
    { path, closes }: Pick<FileState, 'path' | 'closes'>,
    fingerprint: Fingerprint,
    isOurs: boolean,
  ): void {
    const roles = this.#context.manifest.rolesOf(path);
    if (roles.input || roles.checkpoint || this.#row(path).isOlderKept) return;
    // A restored file stays until the task itself has closed it again.
    const inherited = this.#context.inherited.get(path);
    if (inherited !== undefined && sameFingerprint(inherited, fingerprint) && closes === 0) return;
    this.copies.note(path, { fingerprint, closes, isOurs });
  }

  #noteKept(path: RelPath, kept: { key: string; n: number }, known = this.#known(path)): void {
    const { ledger, log } = this.#context;
    ledger.noteKept(path, kept.n);
    if (!this.#row(path).isOlderKept) this.#olderKept += 1;
    this.#note(path, { isOlderKept: true });
    const of =
      known === undefined
        ? 'that was in the store'
        : `of attempt ${known.attempt} (${formatBytes(known.size)})`;
    const message = `${showPath(path)} ${of} kept as ${kept.key}`;
    const fields = { event: 'kept', path, key: kept.key } as const;
    if (this.#saidKept) log.debug(message, fields);
    else log.warn(message, { ...fields, hint: appendedHint(this.#context.settings.manifest) });
    this.#saidKept = true;
  }
}

/** A result that grows by single lines is sent whole each time, and a later attempt would not go on with it. */
function appendedHint({ checkpoints }: ManifestPatterns): string {
  return checkpoints.length > 0
    ? 'if the task appends to it: --companions brings it back with the checkpoint, and sends only what is new'
    : 'if the task appends to it: --checkpoints brings it back, with capture flush after each line or step';
}

/**
 * True if the sidecar that this one replaces may have reclaimed the file: the file that is here now was created after
 * the stored content was written (statx(2), stx_btime; 0 if the file system does not know it).
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
