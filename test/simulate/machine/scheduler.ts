// Virtual time. Everything that happens is an event at an instant, and belongs to one process or to the outside world.
// After each event, all microtasks run. Time jumps from one event to the next, so an hour without events costs nothing.
import { Dead, type SimProcess } from './process.ts';

/** The real one, as simulated processes have their own (replaced/globals.ts). */
const { nextTick } = globalThis.process;

export interface Event {
  atMs: number;
  readonly seq: number;
  /** Undefined for the outside world, which never dies. */
  readonly owner: SimProcess | undefined;
  readonly act: () => void;
  isCancelled: boolean;
}

export class Scheduler {
  nowMs = 0;
  /** The process whose event runs, with its microtasks. */
  running: SimProcess | undefined;
  /** Called for an uncaught error of a process; by default it ends the simulator. */
  onUncaught = (_process: SimProcess, error: unknown): void => {
    throw error;
  };
  /** The number of events that ran. */
  events = 0;
  #seq = 0;
  readonly #heap: Event[] = [];

  /** Calls `act` at this instant, unless `owner` has died by then. */
  at(atMs: number, owner: SimProcess | undefined, act: () => void): Event {
    const event = { atMs: Math.max(this.nowMs, atMs), seq: (this.#seq += 1), owner, act, isCancelled: false };
    this.#push(event);
    return event;
  }

  /** The same for the running process, after `ms`. */
  after(ms: number, act: () => void): Event {
    return this.at(this.nowMs + ms, this.running, act);
  }

  /** Runs events until `isOver`, or until none is left. True if it is over. */
  run(isOver: () => boolean): Promise<boolean> {
    return new Promise((resolve, reject) => {
      // Ticks that microtasks queue run once no microtask is left.
      const again = (): void => nextTick(turn);
      const turn = (): void => {
        try {
          this.running = undefined;
          if (isOver()) return resolve(true);
          if (!this.#step()) return resolve(false);
          queueMicrotask(again);
        } catch (error) {
          reject(error);
        }
      };
      turn();
    });
  }

  /**
   * Runs the next event of a process now, within the event of another: it has a core of its own. Only for processes
   * that await nothing.
   */
  runEarly(process: SimProcess, withinMs: number): boolean {
    let next: Event | undefined;
    for (const event of this.#heap) {
      if (event.owner !== process || event.isCancelled || event.atMs > this.nowMs + withinMs) continue;
      if (next === undefined || isBefore(event, next)) next = event;
    }
    if (next === undefined || process.stalledUntilMs > this.nowMs) return false;
    next.isCancelled = true;
    const before = this.running;
    this.running = process;
    this.#act(next);
    this.running = before;
    return true;
  }

  #step(): boolean {
    for (let event = this.#pop(); event !== undefined; event = this.#pop()) {
      const { owner } = event;
      if (event.isCancelled || owner?.isAlive === false) continue;
      if (owner !== undefined && owner.stalledUntilMs > event.atMs) {
        event.atMs = owner.stalledUntilMs;
        this.#push(event);
        continue;
      }
      this.nowMs = Math.max(this.nowMs, event.atMs);
      this.running = owner;
      this.events += 1;
      this.#act(event);
      return true;
    }
    return false;
  }

  /** Nobody has caught what is thrown here: it ends the process. */
  #act({ act, owner }: Event): void {
    try {
      act();
    } catch (error) {
      if (owner?.isAlive === false && error instanceof Dead) return;
      if (owner === undefined) throw error;
      this.onUncaught(owner, error);
    }
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, heap[parent] as Event)) break;
      heap[at] = heap[parent] as Event;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): Event | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1;
      if (!isBefore(heap[child] as Event, last)) break;
      heap[at] = heap[child] as Event;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.seq < other.seq);
}
