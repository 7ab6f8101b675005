// Commits checkpoint generations: when core/cut says that the set is complete, takes the states of all
// members at one moment, waits until objects hold exactly these, and writes the one record that commits them.
import {
  completeness,
  countsLost,
  cutGivenUp,
  cutTaken,
  endsRound,
  memberClosed,
  newCut,
  type CutState,
} from '../core/cut.ts';
import { sameFingerprint, type FileFacts } from '../core/fingerprint.ts';
import type { ClosedHow } from '../core/events.ts';
import { reasonOf } from '../core/errors.ts';
import { chooseMembers } from '../core/members.ts';
import { showPath, type RelPath } from '../core/path.ts';
import type { Generation, StoredFile } from '../core/records.ts';
import type { Checkpoints } from './checkpoints.ts';
import { commitGeneration, isNewest, markNewestSuspect } from './commit.ts';
import type { Context } from './context.ts';
import type { Files } from './files.ts';
import { collectStates, statMember } from './members.ts';

export interface GenerationsOptions {
  readonly context: Context;
  readonly files: Files;
  readonly checkpoints: Checkpoints;
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

interface Cut {
  readonly states: ReadonlyMap<RelPath, FileFacts>;
}

export class Generations {
  readonly #options: GenerationsOptions;
  #state: CutState;
  #cut: Cut | undefined;
  #committing: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  /** States that a scan has told: their close event may come after it. */
  readonly #scanned = new Map<RelPath, FileFacts>();
  #evaluating = false;
  #paused = false;
  committed = 0;

  constructor(options: GenerationsOptions) {
    this.#options = options;
    const required =
      options.restored.length > 0 ? options.restored : options.context.manifest.exact.checkpoints;
    this.#state = newCut(required);
  }

  closed(path: RelPath, how: ClosedHow, atMs: number): void {
    if (this.#counts(path, how))
      this.#state = memberClosed(this.#state, path, atMs, this.#options.isLast(path));
    this.evaluate();
  }

  /** Each content counts once: what a scan or a rename finds may have a writer, whose close is still to come. */
  #counts(path: RelPath, how: ClosedHow): boolean {
    const { root } = this.#options.context;
    if (how === 'close') {
      const scanned = this.#scanned.get(path);
      this.#scanned.delete(path);
      const now = scanned === undefined ? undefined : statMember(root, path);
      return scanned === undefined || now === undefined || !sameFingerprint(scanned, now);
    }
    const collected = collectStates(root, [path]);
    if (collected.kind === 'busy') return false;
    const state = collected.states.get(path);
    if (how === 'scan' && state !== undefined) this.#scanned.set(path, state);
    return true;
  }

  overflowed(): void {
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
    this.#paused = true;
    clearTimeout(this.#timer);
  }

  /** Takes a cut if the set is complete now. */
  evaluate(): void {
    if (this.#evaluating || this.#paused || this.#cut !== undefined) return;
    this.#evaluating = true;
    try {
      // Closes that came before this instant must be counted before anything is concluded from the counts.
      this.#options.drainEvents();
      this.#consider();
    } finally {
      this.#evaluating = false;
    }
  }

  #consider(): void {
    const { context } = this.#options;
    const { checkpointSettleMs, checkpointLast } = context.settings;
    const nowMs = context.now();
    const rules = { settleMs: checkpointSettleMs, byLast: checkpointLast !== undefined, nowMs };
    const members = this.members();
    const complete = completeness(this.#state, members, rules);
    if (complete.kind === 'settling') this.#wake(complete.untilMs - nowMs);
    if (complete.kind !== 'complete') return;
    const collected = collectStates(context.root, members);
    if (collected.kind === 'busy') return;
    const before = this.#state;
    this.#options.drainEvents();
    // A close that was still on its way belongs to these states: what was counted is not what was seen.
    if (this.#state !== before) return this.#wake(0);
    this.#state = cutTaken(this.#state, members);
    this.#cut = { states: collected.states };
    this.#advance();
  }

  /** Declared checkpoint files that exist, but for those that `--newest` leaves out. */
  members(): readonly RelPath[] {
    const { context, files } = this.#options;
    const candidates = files.tracks('checkpoint').flatMap(({ path }) => {
      const facts = statMember(context.root, path);
      if (facts === undefined) return [];
      return [{ path, mtimeNs: facts.mtimeNs, pattern: context.manifest.matchIndex('checkpoints', path) }];
    });
    return chooseMembers(candidates, context.settings.manifest.newest);
  }

  #advance(): void {
    const cut = this.#cut;
    if (cut === undefined) return;
    const verdict = this.#progress(cut);
    if (verdict === 'waiting') return;
    this.#cut = undefined;
    if (verdict === 'lost') {
      this.#options.context.log.debug(
        'a checkpoint changed while it was read: the next complete set is waited for',
      );
      this.#state = cutGivenUp(this.#state);
      this.#wake(0);
      return;
    }
    this.#commit(verdict, {}).catch((error: unknown) => {
      const { log, signal } = this.#options.context;
      if (signal.aborted) return;
      log.warn(`a checkpoint could not be committed and is tried again: ${reasonOf(error)}`);
      this.#state = cutGivenUp(this.#state);
      this.#wake(COMMIT_RETRY_MS);
    });
  }

  /** The stored members, `waiting` for a push, or `lost`: a state passed before it was read. */
  #progress(cut: Cut): readonly StoredFile[] | 'waiting' | 'lost' {
    const { checkpoints, files } = this.#options;
    const members: StoredFile[] = [];
    let waiting = false;
    for (const [path, state] of cut.states) {
      const object = checkpoints.objectOf(path, state);
      if (object !== undefined) {
        members.push(object);
        continue;
      }
      // What is being sent may be this very state, read before the task went on.
      if (files.get(path, 'checkpoint')?.pushing !== true) {
        const now = statMember(this.#options.context.root, path);
        if (now === undefined || !sameFingerprint(now, state) || !files.want(path, 'checkpoint'))
          return 'lost';
      }
      waiting = true;
    }
    return waiting ? 'waiting' : members;
  }

  /** One commit after the other; rejects when it could not be recorded. */
  #commit(members: readonly StoredFile[], marks: Pick<Generation, 'suspect' | 'incomplete'>): Promise<void> {
    const { context, checkpoints, onCommitted } = this.#options;
    const next = this.#committing.then(async () => {
      await commitGeneration(context, checkpoints, members, marks);
      this.committed += 1;
      onCommitted();
    });
    this.#committing = next.catch(() => undefined);
    return next;
  }

  #wake(afterMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.evaluate(), Math.max(1, afterMs));
  }

  /**
   * The last cut, when the task and all its writers are gone and every push has ended: commits what there is
   * if it differs from the newest generation. `suspect` says whether a member's last close may be a death's.
   */
  async final(ending: {
    readonly clean: boolean;
    readonly suspect: (path: RelPath) => boolean;
    readonly nowMs: number;
  }): Promise<readonly RelPath[]> {
    this.pause();
    await this.#committing;
    const { context, checkpoints, files } = this.#options;
    const members = this.members();
    const states = new Map(
      members.flatMap((path) => {
        const facts = statMember(context.root, path);
        return facts === undefined ? [] : [[path, facts] as const];
      }),
    );
    const objects = members.map((path) => checkpoints.objectOf(path, states.get(path) ?? EMPTY));
    const missing = members.filter((_, at) => objects[at] === undefined);
    const whole = objects.filter((object) => object !== undefined);
    // Inherited and never touched: nothing new to commit.
    const fresh = files
      .tracks('checkpoint')
      .some((track) => track.closes > 0 || (ending.clean && track.durable !== undefined));
    const suspect = members.some(ending.suspect);
    const committed = isNewest(context.ledger, whole);
    if (suspect && committed) markNewestSuspect(context);
    if (!fresh || whole.length === 0 || committed) return missing;
    const quiet = ending.nowMs - this.#state.lastCloseMs >= context.settings.checkpointSettleMs;
    const aligned = !this.#state.fresh || endsRound(this.#state, members) || quiet || this.#state.lastMatched;
    const incomplete = missing.length > 0 || (!ending.clean && !aligned);
    await this.#commit(whole, { ...(suspect ? { suspect } : {}), ...(incomplete ? { incomplete } : {}) });
    if (missing.length > 0)
      context.log.warn(`the last checkpoint lacks ${missing.map(showPath).join(', ')}: marked incomplete`);
    return missing;
  }
}

const EMPTY: FileFacts = { dev: '', ino: '', size: -1, mtimeNs: '', ctimeNs: '', mode: 0, links: 0 };
