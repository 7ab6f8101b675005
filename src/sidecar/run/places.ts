// Limits the pushes in flight of all tasks that send to one store from here, and decides who may begin one when a push
// has ended: a task whose time is short, then the task with the fewest in flight. Each task decides which of its files
// is first. Knows no files.
import type { FileRole } from '../../model/file/file-state.ts';

/** Pushes in flight: enough small ones to hide the store's latency, few enough large ones for the memory. */
const MOST = 32;
const MOST_LARGE = 8;
/**
 * Several tasks leave this many of them free of results: a checkpoint of one task never waits for the results of
 * another.
 */
const KEPT = 4;
const KEPT_LARGE = 2;
/** With several tasks, each may have this many large pushes in flight for each free place: they may take hours. */
const LARGE_FOR_EACH_FREE = 2;
/** A task that has no large push may begin one up to this many: whoever was alone may hold all MOST_LARGE. */
const MOST_LARGE_WITH_FIRSTS = 16;

export interface PushKind {
  readonly role: FileRole;
  /** A worker reads the file, and its parts take memory. */
  readonly isLarge: boolean;
}

/** One task's access to the places. */
export interface PushQuota {
  /** May one more push begin? If not, `serve` is called when it may. */
  hasRoom(kind: PushKind): boolean;
  /** No push of this role may begin; `serve` is called when one may. */
  waits(role: FileRole): boolean;
  /** A push begins, whether there is room or not. */
  take(kind: PushKind): void;
  /** A push has ended. */
  leave(kind: PushKind): void;
  /** The task will be stopped soon, or that was withdrawn. */
  hurry(isHurried: boolean): void;
  /** Begins no further push here. */
  close(): void;
}

interface TaskPushes {
  /** Begins the pushes that have room now. */
  readonly serve: () => void;
  /** The kinds of push that wait for room, by rank. */
  readonly wants: Map<number, PushKind>;
  inFlight: number;
  /** The large ones among them. */
  large: number;
  isHurried: boolean;
  /** The turn in which it was last served. */
  turn: number;
}

/** Pushes in flight of all tasks. */
interface InFlight {
  all: number;
  results: number;
}

export class Places {
  readonly #tasks = new Set<TaskPushes>();
  readonly #inFlight: InFlight = { all: 0, results: 0 };
  /** The large ones among them. */
  readonly #large: InFlight = { all: 0, results: 0 };
  #turn = 0;

  /** `serve` is called when there is room again for a push that had none. */
  open(serve: () => void): PushQuota {
    const one: TaskPushes = { serve, wants: new Map(), inFlight: 0, large: 0, isHurried: false, turn: 0 };
    this.#tasks.add(one);
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
        this.#tasks.delete(one);
        this.#serve();
      },
    };
  }

  #take(one: TaskPushes, { role, isLarge }: PushKind, count: 1 | -1): void {
    one.inFlight += count;
    if (isLarge) one.large += count;
    for (const counts of isLarge ? [this.#inFlight, this.#large] : [this.#inFlight]) {
      counts.all += count;
      if (role === 'result') counts.results += count;
    }
  }

  #hasRoom({ large, isHurried }: TaskPushes, { role, isLarge }: PushKind): boolean {
    const isShared = this.#tasks.size > 1 && !isHurried;
    const leftOf = ({ all, results }: InFlight, most: number, kept: number): number =>
      isShared && role === 'result' ? Math.min(most - all, most - kept - results) : most - all;
    if (leftOf(this.#inFlight, MOST, KEPT) <= 0) return false;
    if (!isLarge) return true;
    if (isShared && large === 0 && this.#large.all < MOST_LARGE_WITH_FIRSTS) return true;
    const free = leftOf(this.#large, MOST_LARGE, KEPT_LARGE);
    return isShared ? large < free * LARGE_FOR_EACH_FREE : free > 0;
  }

  #serve(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      next.wants.clear();
      this.#turn += 1;
      next.turn = this.#turn;
      next.serve();
    }
  }

  /** Among the tasks that wait for a push that has room, the one with the fewest in flight. */
  #next(): TaskPushes | undefined {
    let first: Candidate | undefined;
    for (const one of this.#tasks) {
      for (const [rank, kind] of one.wants) {
        if (!this.#hasRoom(one, kind)) continue;
        const candidate = { one, rank, inFlight: kind.isLarge ? one.large : one.inFlight };
        if (first === undefined || isBefore(candidate, first)) first = candidate;
      }
    }
    return first?.one;
  }
}

interface Candidate {
  readonly one: TaskPushes;
  readonly rank: number;
  /** Pushes in flight of the same kind. */
  readonly inFlight: number;
}

/** Results of a task that will be stopped soon are sent now or never. */
function isBefore(a: Candidate, b: Candidate): boolean {
  if (a.one.isHurried !== b.one.isHurried) return a.one.isHurried;
  if (a.one.isHurried && a.rank !== b.rank) return a.rank < b.rank;
  return a.inFlight === b.inFlight ? a.one.turn < b.one.turn : a.inFlight < b.inFlight;
}

function rankOf({ role, isLarge }: PushKind): number {
  return (role === 'checkpoint' ? 0 : 2) + (isLarge ? 1 : 0);
}
