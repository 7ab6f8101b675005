// Read this first. Connects the steps of a checkpoint from a close to its commit: `Cutting` takes a cut of all members,
// a `PendingCut` waits until objects hold exactly the states of that moment, and `Commits` writes the one record that
// makes it a generation. Knows how many of the closes are committed.
import { reasonOf } from '../../model/errors.ts';
import type { ClosedHow } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import { Changes } from '../../model/waiting.ts';
import { Captures } from './captures.ts';
import { type GenerationFiles, LACKS_SOME, type Marks } from './generation-record.ts';
import { Commits, type CommitsOptions } from './commits.ts';
import { type Commit, commitLast, type CutParts, type LastCut, PendingCut } from './pending-cut.ts';
import { Cutting, type CuttingOptions } from './cutting.ts';
import { SlowSet } from './slow-set.ts';
import { CutRefused } from './verify.ts';

interface GenerationsOptions
  extends CutParts, Omit<CuttingOptions, 'context'>, Pick<CommitsOptions, 'behind' | 'links'> {
  /** Requests a record that also names the objects which the commit makes obsolete. */
  readonly onCommitted: () => void;
}

/** Pause before a commit that the store refused is retried. */
const COMMIT_RETRY_MS = 5000;

export class Generations {
  readonly #options: GenerationsOptions;
  readonly #cutting: Cutting;
  #cut: PendingCut | undefined;
  /** Cuts whose objects must stay: they are under way, or being committed. */
  readonly #held = new Set<PendingCut>();
  readonly #captures: Captures;
  readonly #slow: SlowSet;
  readonly #commits: Commits;
  #timer: NodeJS.Timeout | undefined;
  readonly #coverage = new Coverage();
  /** Aborts when only the last cut remains. */
  readonly #ending = new AbortController();
  #evaluating = false;
  /**
   * False during the first scan of a sidecar that takes over an attempt: a set would lack files that are not found yet.
   */
  #allFound: boolean;

  constructor(options: GenerationsOptions) {
    this.#options = options;
    this.#allFound = options.context.resumed === undefined;
    this.#cutting = new Cutting(options);
    this.#slow = new SlowSet(options.context);
    this.#commits = new Commits({
      ...options,
      inUse: () => [...this.#held].flatMap((cut) => cut.keys),
      mayBeCut: () => this.#cutting.mayBeCut(),
      onCommitted: () => {
        this.#captures.committed();
        options.onCommitted();
      },
    });
    this.#captures = new Captures({
      ...options,
      inTurn: (step) => this.#commits.inTurn(step),
      write: (files, marks) => this.#write(files, marks),
      ending: this.#ending.signal,
    });
  }

  /** The scan at the start has ended. */
  scanned(): void {
    this.#allFound = true;
    this.evaluate();
  }

  /** From now on companions are captured at intervals. */
  begin(): void {
    this.#captures.begin();
  }

  closed(path: RelPath, how: ClosedHow, atMs: number): void {
    if (this.#cutting.closed(path, how, atMs)) this.#coverage.closed();
    this.evaluate();
  }

  overflowed(): void {
    this.#coverage.closed();
    this.#cutting.overflowed();
    this.evaluate();
  }

  /** A push of a member ended: a cut that waits for it may be complete now, or must be given up. */
  memberPushed(path?: RelPath): void {
    this.#advance(path);
    this.evaluate();
  }

  /** Begins no further cut except the last one. */
  pause(): void {
    this.#ending.abort();
    this.#cut?.end();
    this.#slow.ended();
    clearTimeout(this.#timer);
    this.#captures.close();
    this.#commits.pause();
  }

  /** We will be stopped soon: sends what companions hold now. `atMs`: when the task was asked to end, if it was. */
  stopping(atMs?: number): void {
    if (atMs !== undefined) this.#commits.signalled(atMs);
    this.#captures.soon();
  }

  /** Takes a cut if the set is complete now. */
  evaluate(): void {
    if (this.#evaluating || !this.#allFound || this.#ending.signal.aborted || this.#cut !== undefined) return;
    // After fencing each push fails at once, and one cut would follow another.
    if (this.#options.context.signal.aborted || this.#lacksNames()) return;
    this.#evaluating = true;
    try {
      // Closes before this instant must be counted before the counts are used.
      this.#options.drainEvents();
      this.#coverage.looked(this.#consider());
    } finally {
      this.#evaluating = false;
    }
  }

  /**
   * Waits as {@link Coverage.wait} does, except for members that are all gone. `said`: the program itself asks, which
   * says that the files it has closed are whole.
   */
  async covered(signal: AbortSignal, said: boolean): Promise<Covered> {
    if (said) this.#cutting.said();
    this.evaluate();
    return this.members().length === 0 ? { kind: 'covered' } : this.#coverage.wait(signal);
  }

  /** Declared checkpoint files that exist, except those that `--newest` leaves out. */
  members(): readonly RelPath[] {
    return this.#cutting.members();
  }

  /** Stores what companions hold now. False if that failed. */
  captureNow(): Promise<boolean> {
    return this.#captures.now();
  }

  /**
   * The last cut, after the task and all its writers have ended. It includes the files that a pending cut waited for.
   */
  async final(ending: Omit<LastCut, 'members' | 'cutting'>): Promise<readonly RelPath[]> {
    this.pause();
    await this.#commits.idle();
    this.#cut = undefined;
    this.#held.clear();
    const last = { ...ending, members: this.members(), cutting: this.#cutting };
    const commit: Commit = (files, marks) => this.#commit(files, marks, ending.deadline);
    const missing = this.#lacksNames() ? [] : await commitLast(this.#options, last, commit);
    await this.#commits.end(ending.clean && !last.members.some(ending.suspect));
    return missing;
  }

  get commits(): Pick<Commits, 'count' | 'markDeath' | 'recordProven'> {
    return this.#commits;
  }

  /** True if files beyond the limit of names are missing from every set. */
  #lacksNames(): boolean {
    return this.#options.files.tooMany.has('checkpoint');
  }

  /** Why no proven cut can be taken before a further close; undefined if one is under way or due. */
  #consider(): string | undefined {
    const look = this.#cutting.look();
    if (look.kind === 'wait') {
      if (look.forMs !== undefined) this.#wake(look.forMs);
      return look.lacks;
    }
    const closes = this.#coverage.cutTaken(look.isWhole);
    this.#cut = new PendingCut(this.#options, look, closes);
    this.#held.add(this.#cut);
    this.#slow.began(look, () => this.#cutting.state.staleSinceMs !== undefined);
    this.#cut.begin(
      () => this.#cutting.mayBeCut(),
      () => this.memberPushed(),
    );
    this.#advance();
    return undefined;
  }

  #advance(pushed?: RelPath): void {
    const cut = this.#cut;
    if (cut === undefined) return;
    const progress = cut.progress(pushed);
    if (progress.kind === 'waiting') return;
    this.#cut = undefined;
    cut.end();
    this.#slow.ended();
    if (progress.kind === 'whole') {
      const committed = (): void => {
        this.#held.delete(cut);
        this.#cutting.sent(cut.taken);
        this.#coverage.committed(cut.closes);
      };
      const { proof } = cut.taken;
      const proven: Marks = proof === 'instant' ? { instant: true } : { proof };
      const marks = progress.hasCompanions ? proven : LACKS_SOME;
      this.#commit(progress, marks).then(committed, (error: unknown) => this.#failed(cut, error));
    } else if (progress.kind === 'failed') {
      this.#failed(cut, progress.error);
    } else if (progress.kind === 'refused') {
      this.#hopeless(cut);
    } else {
      const { log } = this.#options.context;
      log.debug('a checkpoint changed while it was read: the next complete set is waited for');
      this.#again(cut, 0, progress.path);
    }
  }

  #failed(cut: PendingCut, error: unknown): void {
    const { log, outage, signal } = this.#options.context;
    // After the end has begun, the last cut does better.
    if (signal.aborted || this.#ending.signal.aborted) return;
    if (error instanceof CutRefused) return this.#refused(cut, error);
    if (!outage.isKnown)
      log.warn(`a checkpoint could not be committed and is tried again: ${reasonOf(error)}`);
    this.#again(cut, COMMIT_RETRY_MS);
  }

  #refused(cut: PendingCut, error: CutRefused): void {
    this.#held.delete(cut);
    // Unless the change has caused the next cut already.
    if (error.moved && this.#held.size === 0) return this.#again(cut, 0);
    if (!error.moved) this.#options.context.log.warn(`a checkpoint is not committed: ${error.message}`);
    this.#hopeless(cut);
  }

  /** The same files would be refused again: waits for the next close. */
  #hopeless(cut: PendingCut): void {
    this.#held.delete(cut);
    this.#coverage.givenUp();
    this.#wake(0);
  }

  #again(cut: PendingCut, afterMs: number, path?: RelPath): void {
    this.#held.delete(cut);
    this.#cutting.givenUp(cut.taken, path);
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

  #wake(afterMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.evaluate(), Math.max(1, afterMs));
  }
}

export type Covered =
  | { readonly kind: 'covered' }
  /** Nothing can be committed before a further close. */
  | { readonly kind: 'incomplete'; readonly lacks: string }
  /** The signal aborted first. */
  | { readonly kind: 'late' };

/** How many of the closes are in a committed generation: a flush asks this. */
export class Coverage {
  readonly #changes = new Changes();
  #closes = 0;
  #committedCloses = 0;
  #cutsUnderWay = 0;
  #lacks: string | undefined;

  /** A close was counted. */
  closed(): void {
    this.#closes += 1;
  }

  /** The set was looked at. `lacks`: why no cut can be taken before a further close. */
  looked(lacks: string | undefined): void {
    this.#lacks = lacks;
    this.#changes.notify();
  }

  /** A cut was taken. Returns how many closes it covers: no more than before if it does not hold all files. */
  cutTaken(isWhole: boolean): number {
    this.#cutsUnderWay += 1;
    return isWhole ? this.#closes : this.#committedCloses;
  }

  committed(closes: number): void {
    this.#cutsUnderWay -= 1;
    this.#committedCloses = Math.max(closes, this.#committedCloses);
    this.#changes.notify();
  }

  /** The cut was no longer valid or could not be recorded: another one is due, even without a further close. */
  givenUp(): void {
    this.#cutsUnderWay -= 1;
    this.looked(undefined);
  }

  /**
   * Waits until a committed generation covers every close that was counted before this call, or until no cut is due.
   */
  async wait(signal: AbortSignal): Promise<Covered> {
    const closes = this.#closes;
    const isCovered = (): boolean => this.#committedCloses >= closes;
    const isDue = (): boolean => this.#lacks === undefined || this.#cutsUnderWay > 0;
    while (!isCovered() && isDue() && !signal.aborted) await this.#changes.next(signal);
    if (isCovered()) return { kind: 'covered' };
    return isDue() || this.#lacks === undefined
      ? { kind: 'late' }
      : { kind: 'incomplete', lacks: this.#lacks };
  }
}
