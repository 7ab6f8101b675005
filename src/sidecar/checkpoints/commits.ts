// Writes the records of generations one after the other: commits sets, and later records that they are proven and
// drops what was kept until then. Does not know what a set is, or when it is complete.
import pLimit from 'p-limit';
import { committedLine, generationBytes, preferenceLine } from '../../model/checkpoint/generation-words.ts';
import { generationName, newestOf } from '../../model/checkpoint/history.ts';
import { reasonOf } from '../../model/errors.ts';
import type { MessageFields } from '../../model/format/message-fields.ts';
import type { Behind, Generation } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import {
  commitGeneration,
  deleteUnneeded,
  markProven,
  markSuspect,
  type GenerationFiles,
  type Keepers,
  type Losses,
  type Marks,
  recordProven,
} from './commit.ts';
import { closesOf } from './last-generation.ts';
import type { CutParts } from './pending-cut.ts';
import { Spare } from './spare.ts';
import { openVerifyCut, type VerifyCut } from './verify-cut.ts';

export interface CommitsOptions extends CutParts {
  /** Objects of cuts that are under way. */
  readonly inUse: () => readonly string[];
  /** Results that a set is ahead of if it is committed now. */
  readonly behind: () => readonly Behind[];
  /** Files that the next cut may hold. */
  readonly mayBeCut: () => ReadonlySet<RelPath>;
  /** Called after each commit. */
  readonly onCommitted: () => void;
}

export class Commits {
  readonly #options: CommitsOptions;
  readonly #keepers: Keepers;
  readonly #spare: Spare;
  readonly #verified: VerifyCut;
  /** Runs a step once those before it are over. */
  readonly inTurn = pLimit(1);
  #isMarkDue = false;
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
    this.#verified = openVerifyCut(options.context, options.checkpoints);
  }

  /** Resolves when every step that was begun is over. */
  idle(): Promise<void> {
    return this.inTurn(async () => undefined);
  }

  /** Call it inside `inTurn`. Rejects if it could not be recorded; `until` as for {@link VerifyCut}. */
  async write(files: GenerationFiles, marks: Marks, until: Parameters<VerifyCut>[3]): Promise<void> {
    const { context, checkpoints, onCommitted } = this.#options;
    const number = checkpoints.takeNumber();
    const doubted: Marks = this.#spare.isDoubtful(files) ? { ...marks, unproven: true } : marks;
    const verified = await this.#verified(files.members, number, doubted, until);
    const made = { number, files, marks: { ...verified.marks, ...this.#losses() } };
    const before = context.ledger.generations;
    const generation = await commitGeneration(context, this.#keepers, made);
    this.#sayProven(before);
    this.#say(generation, verified.refused);
    this.count += 1;
    this.#spare.committed();
    onCommitted();
  }

  #losses(): Losses {
    const { context, behind } = this.#options;
    const now = behind();
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

  /** The task was asked to end. */
  signalled(atMs: number): void {
    this.#spare.signalled(atMs);
  }

  /**
  /**
   * A death has come to light: before anything else is done about it, the store gets a mark on the sets that may hold
   * a file of `paths` half-written. `hint`: what the user can say against it. Rejects if that could not be recorded.
   */
  markDeath(paths: readonly RelPath[], signal: AbortSignal, hint: string | undefined): Promise<void> {
    const { context, files, checkpoints } = this.#options;
    return this.inTurn(async () => {
      if (context.settings.verify?.atCommit === true) return;
      const objects = paths.flatMap((path) => checkpoints.newestOf(path) ?? []);
      // This includes what an earlier try marked and could not record.
      this.#isMarkDue = markSuspect(context, closesOf(objects, files), hint) || this.#isMarkDue;
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
}
