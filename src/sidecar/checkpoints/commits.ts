// Writes the records of generations one after the other: commits sets, and later records that they are proven and
// drops what was kept until then. Does not know what a set is, or when it is complete.
import pLimit from 'p-limit';
import { committedLine, generationBytes, preferenceLine } from '../../model/checkpoint/generation-words.ts';
import { generationName, newestOf } from '../../model/checkpoint/history.ts';
import { keptGenerations } from '../../model/checkpoint/retention.ts';
import { reasonOf } from '../../model/errors.ts';
import { provenFromMs } from '../../model/file/suspect.ts';
import type { MessageFields } from '../../model/format/message-fields.ts';
import type { Behind, Generation, StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { factsBeneath } from '../../native/files.ts';
import { type LongTimer, startTimer } from '../../native/clock.ts';
import { contentClose } from '../run/content-close.ts';
import {
  commitGeneration,
  deleteUnneeded,
  type GenerationFiles,
  type Keepers,
  lastClosesOf,
  type Losses,
  markProven,
  type Marks,
  markSuspect,
  recordProven,
} from './generation-record.ts';
import type { CutParts } from './pending-cut.ts';
import { CutCheck, type Until, type Verified } from './verify.ts';

export interface CommitsOptions extends CutParts {
  /** Objects of cuts that are under way. */
  readonly inUse: () => readonly string[];
  /** Results that a set is ahead of if it is committed now; `upTo` is the place of its members' newest close among all. */
  readonly behind: (upTo: number | undefined) => readonly Behind[];
  /** Files that the next cut may hold. */
  readonly mayBeCut: () => ReadonlySet<RelPath>;
  /** Called after each commit. */
  readonly onCommitted: () => void;
}

export class Commits {
  readonly #options: CommitsOptions;
  readonly #keepers: Keepers;
  readonly #spare: Spare;
  /** Undefined if no set is checked before its commit. */
  readonly #check: CutCheck | undefined;
  /** Runs a step once those before it are over. */
  readonly inTurn = pLimit(1);
  #isMarkDue = false;
  /** Files that a death may have left half-written. */
  #ofDeath: ReadonlySet<RelPath> = new Set();
  /** The user knows of a set that is whole. */
  #isSaid: boolean;
  /** Of this attempt, with those that a sidecar committed that this one replaces. */
  count: number;

  constructor(options: CommitsOptions) {
    this.#options = options;
    const { ledger, attempt } = options.context;
    this.count = newestOf(ledger.generations, attempt);
    this.#isSaid = this.count > 0;
    this.#spare = new Spare(options, () => void this.recordProven());
    this.#keepers = { ...options, isProven: this.#spare.isProven };
    const { verify } = options.context.settings;
    if (verify?.atCommit === true)
      this.#check = new CutCheck(options.context, verify.command, options.checkpoints);
  }

  /** Resolves when every step that was begun is over. */
  idle(): Promise<void> {
    return this.inTurn(async () => undefined);
  }

  /** Call it inside `inTurn`. Rejects if it could not be recorded; `until` as for {@link CutCheck}. */
  async write(files: GenerationFiles, marks: Marks, until: Until): Promise<void> {
    const { context, checkpoints, onCommitted } = this.#options;
    const number = checkpoints.takeNumber();
    // The record of a set may be due when a death comes to light: it must not say for a moment that the set is good.
    const suspect: Marks = files.members.some((file) => this.#isOfDeath(file)) ? { suspect: true } : {};
    const doubted: Marks = this.#spare.isProven(files)
      ? { ...marks, ...suspect }
      : { ...marks, ...suspect, unproven: true };
    const unchecked: Verified = { marks: doubted };
    const verified = (await this.#check?.verified(files.members, number, doubted, until)) ?? unchecked;
    const made = { number, files, marks: { ...verified.marks, ...this.#losses(files) } };
    const before = context.ledger.generations;
    const generation = await commitGeneration(context, this.#keepers, made);
    this.#sayProven(before);
    this.#say(generation, verified.refused);
    this.count += 1;
    this.#spare.committed();
    onCommitted();
  }

  /** The task was asked to end. */
  signalled(atMs: number): void {
    this.#spare.signalled(atMs);
  }

  /**
   * A death has come to light: before anything else is done about it, the store gets a mark on the sets that may hold
   * a file of `paths` half-written. `hint`: what the user can say against it. Rejects if that could not be recorded.
   */
  markDeath(paths: readonly RelPath[], signal: AbortSignal, hint: string | undefined): Promise<void> {
    const { context, files, checkpoints } = this.#options;
    const { verify } = context.settings;
    // At once: a commit whose turn comes first may have waited for the store, and no death settles by time.
    if (verify?.atCommit !== true) this.#ofDeath = new Set(paths);
    return this.inTurn(async () => {
      if (verify?.atCommit === true) return;
      // This includes what an earlier try marked and could not record.
      this.#isMarkDue =
        markSuspect(context, lastClosesOf(paths, { files, checkpoints }), hint) || this.#isMarkDue;
      if (this.#isMarkDue) await context.ledger.write('stored', {}, signal);
      this.#isMarkDue = false;
    });
  }

  /** Only the last commit is still to come. */
  pause(): void {
    this.#spare.close();
  }

  /**
   * Nothing is committed any more: deletes objects that no generation names, and if the task ended `well`, also what
   * was kept in case it did not. Never rejects.
   */
  async end(well: boolean): Promise<void> {
    const { context } = this.#options;
    const before = context.ledger.generations;
    markProven(context);
    this.#sayProven(before);
    if (well) this.#spare.endedWell();
    if (well) await this.recordProven();
    await this.inTurn(() => deleteUnneeded(context, this.#keepers, [])).catch((error: unknown) => {
      context.log.debug(`objects that no checkpoint needs stay: ${reasonOf(error)}`);
    });
  }

  /** Resolves to false if it could not be recorded. That only costs space, and the next commit tries again. */
  async recordProven(): Promise<boolean> {
    const { context } = this.#options;
    let isRecorded = true;
    await this.inTurn(async () => {
      const before = context.ledger.generations;
      await recordProven(context, this.#keepers);
      this.#sayProven(before);
    }).catch((error: unknown) => {
      context.log.debug(`an older checkpoint is still kept: ${reasonOf(error)}`);
      isRecorded = false;
    });
    this.#spare.committed();
    return isRecorded;
  }

  /** True if the object holds what stands there now. */
  #isOfDeath({ path, mtimeNs }: StoredFile): boolean {
    const { root } = this.#options.context;
    return this.#ofDeath.has(path) && factsBeneath(root, path)?.mtimeNs === mtimeNs;
  }

  #losses({ upTo }: GenerationFiles): Losses {
    const { context, behind } = this.#options;
    const now = behind(upTo);
    return {
      ...(now.length > 0 ? { behind: [...now] } : {}),
      ...(context.lacking.length > 0 ? { lacking: [...context.lacking] } : {}),
    };
  }

  /**
   * The first one that is known to be whole shows that all is well; the others are counted, once a minute. `refused`:
   * why its check made it suspect.
   */
  #say(generation: Generation, refused: string | undefined): void {
    const { log, ledger } = this.#options.context;
    const { suspect = false, incomplete = false, unproven = false, instant = false } = generation;
    const fields: MessageFields = {
      event: 'checkpoint',
      generation: generationName(generation),
      files: generation.members.length,
      bytes: generationBytes(generation),
      suspect,
      incomplete,
      unproven,
      instant,
    };
    const line = committedLine(generation, refused);
    if (suspect) log.warn(`${line}: ${preferenceLine(ledger.generations)}`, fields);
    else if (incomplete) log.info(line, fields);
    else if (unproven) log.debug(line, fields);
    else log[this.#firstLevel()](line, fields);
  }

  /** What was not proven when it was committed, and is now. `before`: as the last record had them. */
  #sayProven(before: readonly Generation[]): void {
    const { log, ledger } = this.#options.context;
    const doubted = new Set(before.filter(({ unproven }) => unproven === true).map(generationName));
    for (const generation of ledger.generations) {
      const { unproven, suspect, incomplete } = generation;
      const name = generationName(generation);
      if (!doubted.has(name) || unproven === true || suspect === true || incomplete === true) continue;
      log[this.#firstLevel()](committedLine(generation), { event: 'proven', generation: name });
    }
  }

  #firstLevel(): 'info' | 'debug' {
    const level = this.#isSaid ? 'debug' : 'info';
    this.#isSaid = true;
    return level;
  }
}

interface Members {
  readonly members: readonly StoredFile[];
}

/**
 * Which generations are proven, and when the next one will be. Until one is, more are kept than `--generations` says:
 * a death can come to light seconds after the commit of the set that it left half-written.
 */
export class Spare {
  readonly #parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>;
  readonly #onProven: () => void;
  #signalledAtMs: number | undefined;
  #clean = false;
  #timer: LongTimer | undefined;

  /** Calls `onProven` when a generation is proven, if that lets another one go or takes a mark away. */
  constructor(parts: Pick<CutParts, 'context' | 'files' | 'checkpoints'>, onProven: () => void) {
    this.#parts = parts;
    this.#onProven = onProven;
  }

  /** False while a death may have made the close of one of these files. */
  readonly isProven = (generation: Members): boolean =>
    this.#clean || this.#parts.context.taskNews.reaches(this.#provenFromMs(generation));

  /** A generation was committed. Asks to be called when the next one is proven, if that changes anything. */
  committed(): void {
    this.#timer?.cancel();
    const { ledger, settings, now } = this.#parts.context;
    const { generations } = ledger;
    const isSpare =
      keptGenerations(generations, settings.generations, () => true).length < generations.length;
    if (!isSpare && !generations.some(({ unproven }) => unproven)) return;
    const nowMs = now();
    const times = generations.map((one) => this.#provenFromMs(one)).filter((atMs) => atMs > nowMs);
    const nextMs = Math.min(...times);
    if (nextMs < Infinity) this.#timer = startTimer(nextMs - nowMs, this.#onProven);
  }

  /** The task was asked to end: from now on only its end proves what it closes. */
  signalled(atMs: number): void {
    this.#signalledAtMs ??= atMs;
  }

  /** The task ended well, and none of its writers died: all is proven. */
  endedWell(): void {
    this.#clean = true;
  }

  close(): void {
    this.#timer?.cancel();
  }

  /** When it is proven, ms since the epoch: 0 for at once, Infinity for not before the end. */
  #provenFromMs({ members }: Members): number {
    const { files, checkpoints, context } = this.#parts;
    const from = members.map(({ path, md5, mtimeNs }) => {
      const newest = checkpoints.newestOf(path);
      // The task has closed the file again since, so no death made the close of this object. A sidecar that replaces
      // another sends the same bytes under another key: that proves nothing.
      if (newest !== undefined && newest.md5 !== md5) return 0;
      const { lastClose } = files.get(path, 'checkpoint') ?? {};
      return provenFromMs(contentClose(context, lastClose, { mtimeNs }), this.#signalledAtMs);
    });
    return Math.max(0, ...from);
  }
}
