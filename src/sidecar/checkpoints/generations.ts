// Commits checkpoint generations: when core/cut says that the set is complete, takes the states of all
// members at one moment, waits until objects hold exactly these, and writes the one record that commits them.
import {
  completeness,
  countsLost,
  cutGivenUp,
  cutTaken,
  memberClosed,
  newCut,
  type CutState,
} from '../../core/cut.ts';
import type { ClosedHow } from '../../core/events.ts';
import { reasonOf } from '../../core/errors.ts';
import { showPath, type RelPath } from '../../core/path.ts';
import { openCaptures, type Captures } from './captures.ts';
import type { GenerationFiles, Marks } from './commit.ts';
import { Commits, type CommitsOptions } from './commits.ts';
import { openCounted } from './counted.ts';
import { Coverage, lacksQuiet, type Covered } from './coverage.ts';
import { commitLast, type Commit, type LastCut } from './last-generation.ts';
import { collectStates, membersAmong } from './members.ts';
import { CutRefused } from './verify-cut.ts';
import { PendingCut, type CutParts } from './pending-cut.ts';

export interface GenerationsOptions extends CutParts, Pick<CommitsOptions, 'behind'> {
  /** Delivers all closes that the kernel has queued at this moment. */
  readonly drainEvents: () => void;
  readonly isLast: (path: RelPath) => boolean;
  /** Members of the generation that was restored. */
  readonly restored: readonly RelPath[];
  /** Asks for a record that also names what the commit makes obsolete. */
  readonly onCommitted: () => void;
}

/** Pause before a commit that the store refused is tried again. */
const COMMIT_RETRY_MS = 5000;

export class Generations {
  readonly #options: GenerationsOptions;
  #state: CutState;
  #cut: PendingCut | undefined;
  /** Cuts whose objects must stay: under way, or being committed. */
  readonly #held = new Set<PendingCut>();
  readonly #captures: Captures;
  readonly #commits: Commits;
  #timer: NodeJS.Timeout | undefined;
  readonly #counts: (path: RelPath, how: ClosedHow) => boolean;
  readonly #coverage = new Coverage();
  /** Aborts when only the last cut is still to come. */
  readonly #ending = new AbortController();
  #evaluating = false;

  constructor(options: GenerationsOptions) {
    this.#options = options;
    this.#counts = openCounted(options.context.root);
    this.#commits = new Commits({
      ...options,
      inUse: () => [...this.#held].flatMap((cut) => cut.keys),
      onCommitted: () => {
        this.#captures.committed();
        options.onCommitted();
      },
    });
    const { restored, context } = options;
    this.#state = newCut(restored.length > 0 ? restored : context.manifest.exact.checkpoints);
    this.#captures = openCaptures({
      ...options,
      inTurn: (step) => this.#commits.inTurn(step),
      write: (files) => this.#write(files, {}),
      ending: this.#ending.signal,
    });
  }

  closed(path: RelPath, how: ClosedHow, atMs: number): void {
    if (this.#counts(path, how)) {
      this.#coverage.closed();
      this.#state = memberClosed(this.#state, path, atMs, this.#options.isLast(path));
    }
    this.evaluate();
  }

  overflowed(): void {
    this.#coverage.closed();
    this.#state = countsLost(this.#state, this.#options.context.now());
    this.evaluate();
  }

  /** A push of a member ended: a cut that waits for it may hold now, or has to be given up. */
  memberSettled(): void {
    this.#advance();
    this.evaluate();
  }

  /** No cut begins any more but the final one. */
  pause(): void {
    this.#ending.abort();
    clearTimeout(this.#timer);
    this.#captures.close();
    this.#commits.pause();
  }

  /** We are to be stopped: what companions hold is sent now. `atMs`: when the task was asked to end, if it was. */
  stopping(atMs?: number): void {
    if (atMs !== undefined) this.#commits.signalled(atMs);
    this.#captures.soon();
  }

  /** Takes a cut if the set is complete now. */
  evaluate(): void {
    if (this.#evaluating || this.#ending.signal.aborted || this.#cut !== undefined) return;
    this.#evaluating = true;
    try {
      // Closes that came before this instant must be counted before anything is concluded from the counts.
      this.#options.drainEvents();
      this.#coverage.looked(this.#consider());
    } finally {
      this.#evaluating = false;
    }
  }

  /** Why no cut can be taken before something more is closed; undefined when one is under way or due. */
  #consider(): string | undefined {
    const { context } = this.#options;
    const { checkpointSettleMs, checkpointLast } = context.settings;
    const nowMs = context.now();
    const rules = { settleMs: checkpointSettleMs, byLast: checkpointLast !== undefined, nowMs };
    const members = this.members();
    const complete = completeness(this.#state, members, rules);
    if (complete.kind === 'incomplete') return 'more of it is still to be closed';
    if (complete.kind === 'settling') {
      this.#wake(complete.untilMs - nowMs);
      return lacksQuiet(complete.untilMs - nowMs);
    }
    const collected = collectStates(context.root, members);
    if (collected.kind === 'busy') return `${showPath(collected.path)} is being written`;
    const before = this.#state;
    this.#options.drainEvents();
    // A close that was still on its way belongs to these states: what was counted is not what was seen.
    if (this.#state !== before) return this.#wake(0);
    this.#state = cutTaken(this.#state, members);
    const closes = this.#coverage.cutTaken();
    this.#cut = new PendingCut(this.#options, collected.states, closes, () => this.memberSettled());
    this.#held.add(this.#cut);
    this.#advance();
    return undefined;
  }

  /** Waits as {@link Coverage.wait} does; members that are all gone are not waited for. */
  async covered(signal: AbortSignal): Promise<Covered> {
    this.evaluate();
    return this.members().length === 0 ? { kind: 'covered' } : this.#coverage.wait(signal);
  }

  /** Declared checkpoint files that exist, but for those that `--newest` leaves out. */
  members(): readonly RelPath[] {
    return membersAmong(this.#options.context, [...this.#options.files.tracks('checkpoint')]);
  }

  #advance(): void {
    const cut = this.#cut;
    if (cut === undefined) return;
    const progress = cut.progress();
    if (progress.kind === 'waiting') return;
    this.#cut = undefined;
    if (progress.kind === 'whole') {
      const committed = (): void => {
        this.#held.delete(cut);
        this.#coverage.committed(cut.closes);
      };
      this.#commit(progress, {}).then(committed, (error: unknown) => this.#failed(cut, error));
    } else if (progress.kind === 'failed') {
      this.#failed(cut, progress.error);
    } else {
      const { log } = this.#options.context;
      log.debug('a checkpoint changed while it was read: the next complete set is waited for');
      this.#again(cut, 0);
    }
  }

  #failed(cut: PendingCut, error: unknown): void {
    const { log, outage, signal } = this.#options.context;
    // Once the end has come the last cut does better.
    if (signal.aborted || this.#ending.signal.aborted) return;
    if (error instanceof CutRefused) return this.#refused(cut, error);
    if (!outage.isKnown)
      log.warn(`a checkpoint could not be committed and is tried again: ${reasonOf(error)}`);
    this.#again(cut, COMMIT_RETRY_MS);
  }

  /** The same files would be refused again: the next close is waited for, unless it has made the next cut. */
  #refused(cut: PendingCut, error: CutRefused): void {
    this.#held.delete(cut);
    if (error.moved && this.#held.size === 0) return this.#again(cut, 0);
    if (!error.moved) this.#options.context.log.warn(`a checkpoint is not committed: ${error.message}`);
    this.#coverage.givenUp();
  }

  #again(cut: PendingCut, afterMs: number): void {
    this.#held.delete(cut);
    this.#state = cutGivenUp(this.#state);
    this.#wake(afterMs);
    this.#coverage.givenUp();
  }

  #commit(files: GenerationFiles, marks: Marks, deadline?: AbortSignal): Promise<void> {
    return this.#commits.inTurn(() => this.#write(files, marks, deadline));
  }

  #write(files: GenerationFiles, marks: Marks, deadline?: AbortSignal): Promise<void> {
    const until = { signal: deadline ?? this.#ending.signal, isLast: deadline !== undefined };
    return this.#commits.write(files, marks, until);
  }

  /** Stores what companions hold by now. False when it could not be. */
  captureNow(): Promise<boolean> {
    return this.#captures.now();
  }

  #wake(afterMs: number): undefined {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.evaluate(), Math.max(1, afterMs));
  }

  /** The last cut, when the task and all its writers are gone: what another waited for is part of it. */
  async final(ending: Omit<LastCut, 'members' | 'state'>): Promise<readonly RelPath[]> {
    this.pause();
    await this.#commits.settled();
    this.#cut = undefined;
    this.#held.clear();
    const last = { ...ending, members: this.members(), state: this.#state };
    const commit: Commit = (files, marks) => this.#commit(files, marks, ending.deadline);
    const missing = await commitLast(this.#options, last, commit);
    await this.#commits.end(ending.clean && !last.members.some(ending.suspect));
    return missing;
  }

  get committed(): number {
    return this.#commits.count;
  }
}
