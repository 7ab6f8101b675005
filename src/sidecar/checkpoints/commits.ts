// Writes the records of generations one by one: commits sets, and later records that they are proven and drops what was
// kept until then. Knows neither what a set is nor when it is complete.
import pLimit from 'p-limit';
import { committedLine, generationBytes, preferenceLine } from '../../model/checkpoint/generation-words.ts';
import { generationName, newestGeneration } from '../../model/checkpoint/history.ts';
import { committedCount } from '../../model/checkpoint/takeovers.ts';
import { reasonOf } from '../../model/errors.ts';
import type { MessageFields } from '../../model/format/message-fields.ts';
import type { Behind, Generation } from '../../model/format/records.ts';
import { plural } from '../../model/units.ts';
import type { RelPath } from '../../model/path.ts';
import type { LinkedDirectories } from '../../watch/linked-directories.ts';
import type { MembersClosed } from '../queue/unsaved.ts';
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
import { HiddenMembers } from './hidden-members.ts';
import type { CutParts } from './pending-cut.ts';
import { Spare } from './spare.ts';
import { CutCheck, type Until, type Verified } from './verify.ts';

export interface CommitsOptions extends CutParts {
  /** Objects of cuts that are under way. */
  readonly inUse: () => readonly string[];
  /** Results that a set would be ahead of if it were committed now. */
  readonly behind: (set: MembersClosed) => readonly Behind[];
  /** Files that the next cut may hold. */
  readonly mayBeCut: () => ReadonlySet<RelPath>;
  readonly links: Pick<LinkedDirectories, 'lost'>;
  /** Called after each commit. */
  readonly onCommitted: () => void;
}

export class Commits {
  readonly #options: CommitsOptions;
  readonly #keepers: Keepers;
  readonly #spare: Spare;
  readonly #hidden: HiddenMembers;
  /** Undefined if sets are not checked before their commit. */
  readonly #check: CutCheck | undefined;
  /** Runs a step once all earlier steps have ended. */
  readonly inTurn = pLimit(1);
  #isMarkDue = false;
  /** The user knows that there is a whole set. */
  #isSaid: boolean;
  #hasSaidNoRoom = false;
  /** Sets that this attempt has committed, including those of a sidecar that this one replaces. */
  count: number;

  constructor(options: CommitsOptions) {
    this.#options = options;
    const { ledger, attempt } = options.context;
    this.count = committedCount(newestGeneration(ledger.generations, attempt), ledger.takeovers);
    this.#isSaid = this.count > 0;
    this.#spare = new Spare(options, () => void this.recordProven());
    this.#hidden = new HiddenMembers(options.context, options.links);
    const onNoRoom = (kept: number, wanted: number): void => this.#sayNoRoom(kept, wanted);
    this.#keepers = { ...options, isProven: this.#spare.isProven, onNoRoom };
    const { verify } = options.context.settings;
    if (verify?.atCommit === true)
      this.#check = new CutCheck(options.context, verify.command, options.checkpoints);
  }

  /** Resolves when every step that was begun has ended. */
  idle(): Promise<void> {
    return this.inTurn(async () => undefined);
  }

  /** Call it inside `inTurn`. Rejects if the generation could not be recorded; `until` as for {@link CutCheck}. */
  async write(files: GenerationFiles, marks: Marks, until: Until): Promise<void> {
    const { context, checkpoints, onCommitted } = this.#options;
    const number = checkpoints.takeNumber();
    // A file that was closed for a dying process is not proven either: no record says, even briefly, that the set is
    // good.
    const isProven = this.#spare.isProven(files, context.ledger.generations);
    const doubted: Marks = isProven ? marks : { ...marks, unproven: true };
    const unchecked: Verified = { marks: doubted };
    const verified = (await this.#check?.verified(files.members, number, doubted, until)) ?? unchecked;
    const hidden = await this.#hidden.marks(until);
    const made = { number, files, marks: { ...verified.marks, ...hidden, ...this.#losses(files, isProven) } };
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
   * A death was noticed. Before anything else, marks in the store the sets that may hold a half-written file of
   * `paths`. `hint`: how the user can say that nothing is half-written. Rejects if the marks could not be recorded.
   */
  markDeath(paths: readonly RelPath[], signal: AbortSignal, hint: string | undefined): Promise<void> {
    const { context, files, checkpoints } = this.#options;
    const { verify } = context.settings;
    return this.inTurn(async () => {
      if (verify?.atCommit === true) return;
      // This includes marks that an earlier try set and could not record.
      this.#isMarkDue =
        markSuspect(context, lastClosesOf(paths, { files, checkpoints }), hint) || this.#isMarkDue;
      if (this.#isMarkDue) await context.ledger.write('stored', {}, signal);
      this.#isMarkDue = false;
    });
  }

  /** Only the last commit remains. */
  pause(): void {
    this.#spare.close();
  }

  /**
   * Nothing is committed any more. Deletes objects that no generation names and, if the task ended `well`, also those
   * that were kept in case it did not. Never rejects.
   */
  async end(well: boolean): Promise<void> {
    const { context } = this.#options;
    const before = context.ledger.generations;
    markProven(context, this.#spare.isSettled);
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

  #losses({ upTo }: GenerationFiles, isProven: boolean): Losses {
    const { context, behind } = this.#options;
    const now = behind({ upTo, isProven });
    return {
      ...(now.length > 0 ? { behind: [...now] } : {}),
      ...(context.lacking.length > 0 ? { lacking: [...context.lacking] } : {}),
    };
  }

  /**
   * The first set that is known to be whole gets a message; later ones are counted, once a minute. `refused`: why its
   * check made it suspect.
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

  /**
   * Generations that were not proven when they were committed, and are proven now. `before`: their state in the last
   * record.
   */
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

  #sayNoRoom(kept: number, wanted: number): void {
    if (this.#hasSaidNoRoom) return;
    this.#hasSaidNoRoom = true;
    const { log } = this.#options.context;
    log.warn(
      `a record has room for ${kept} of the ${plural(wanted, 'checkpoint set')} to keep: the oldest are deleted`,
      {
        hint: `--generations ${kept}; or fewer files in a set: --newest, or one archive of them`,
      },
    );
  }

  #firstLevel(): 'info' | 'debug' {
    const level = this.#isSaid ? 'debug' : 'info';
    this.#isSaid = true;
    return level;
  }
}
