// How many pushes are under way at once, of all tasks that send to one store from here, and who may begin when one has
// ended: a checkpoint before a small result before a large one, the results of a task whose time is short before those of
// others, then the task that has fewest under way. It knows no file.
import type { FileRole } from '../../model/file/file-state.ts';

/** Pushes under way at once: enough small ones to hide the store's latency, few enough large ones for the memory. */
const MOST = 32;
const MOST_LARGE = 8;
/** Of these, what several tasks leave free of results: a checkpoint of one never waits for the results of another. */
const KEPT = 4;
const KEPT_LARGE = 2;

export interface PushKind {
  readonly role: FileRole;
  /** A worker reads it, and its parts take memory. */
  readonly isLarge: boolean;
}

/** What one task has of the places. */
export interface Seat {
  /** May one more begin? If not, the seat is told when it may. */
  hasRoom(kind: PushKind): boolean;
  /** No push of this role may begin, and the seat is told when one may. */
  waits(role: FileRole): boolean;
  /** One begins, whether there is room or not. */
  take(kind: PushKind): void;
  /** One has ended. */
  leave(kind: PushKind): void;
  /** It is stopped soon, or that was taken back. */
  hurry(isHurried: boolean): void;
  /** No further one begins here. */
  close(): void;
}

interface Sitting {
  /** Begins what has room now. */
  readonly serve: () => void;
  /** By rank. */
  readonly wants: Map<number, PushKind>;
  held: number;
  isHurried: boolean;
  /** When it was last served, in turns. */
  turn: number;
}

export class Places {
  readonly #sitting = new Set<Sitting>();
  #held = 0;
  #large = 0;
  #turn = 0;

  /** `serve` is called when there is room again for what had none. */
  open(serve: () => void): Seat {
    const one: Sitting = { serve, wants: new Map(), held: 0, isHurried: false, turn: 0 };
    this.#sitting.add(one);
    return {
      hasRoom: (kind) => {
        if (this.#hasRoom(one, kind)) return true;
        one.wants.set(rankOf(kind), kind);
        return false;
      },
      waits: (role) =>
        [...one.wants.values()].some((kind) => kind.role === role) &&
        !this.#hasRoom(one, { role, isLarge: false }),
      take: (kind) => this.#take(one, kind, 1),
      leave: (kind) => {
        this.#take(one, kind, -1);
        this.#serve();
      },
      hurry: (isHurried) => {
        one.isHurried = isHurried;
      },
      close: () => {
        one.wants.clear();
        this.#sitting.delete(one);
        this.#serve();
      },
    };
  }

  #take(one: Sitting, { isLarge }: PushKind, count: 1 | -1): void {
    one.held += count;
    this.#held += count;
    if (isLarge) this.#large += count;
  }

  #hasRoom({ isHurried }: Sitting, { role, isLarge }: PushKind): boolean {
    const isKept = this.#sitting.size > 1 && role !== 'checkpoint' && !isHurried;
    if (this.#held >= MOST - (isKept ? KEPT : 0)) return false;
    return !isLarge || this.#large < MOST_LARGE - (isKept ? KEPT_LARGE : 0);
  }

  #serve(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      next.wants.clear();
      this.#turn += 1;
      next.turn = this.#turn;
      next.serve();
    }
  }

  /** Who waits for something that has room. */
  #next(): Sitting | undefined {
    let first: { readonly one: Sitting; readonly rank: number } | undefined;
    for (const one of this.#sitting) {
      const ranks = [...one.wants].flatMap(([rank, kind]) => (this.#hasRoom(one, kind) ? [rank] : []));
      if (ranks.length === 0) continue;
      const rank = Math.min(...ranks);
      if (first === undefined || isBefore({ one, rank }, first)) first = { one, rank };
    }
    return first?.one;
  }
}

interface Claim {
  readonly one: Sitting;
  readonly rank: number;
}

function isBefore(a: Claim, b: Claim): boolean {
  const [ofA, ofB] = [urgencyOf(a), urgencyOf(b)];
  if (ofA !== ofB) return ofA < ofB;
  return a.one.held === b.one.held ? a.one.turn < b.one.turn : a.one.held < b.one.held;
}

/** Results of a task that is stopped soon are sent now or never. */
function urgencyOf({ one, rank }: Claim): number {
  return one.isHurried || rank < RESULTS ? rank : rank + RESULTS;
}

/** The rank of the first that are results. */
const RESULTS = 2;

function rankOf({ role, isLarge }: PushKind): number {
  return (role === 'checkpoint' ? 0 : RESULTS) + (isLarge ? 1 : 0);
}
