// Which index is started next, and how did each end? The plan of one runner: it is told what begins and ends, and
// never gives out an index that runs or is over. Memory only; times are arguments.
import type { Mistake } from '../errors.ts';
import { EXIT, type ExitStatus } from '../exit-status.ts';
import { indicesOf, type IndexSet } from '../index-set.ts';
import { type Halt, type Halting, haltingOf } from './halt.ts';

/** How one start of an index ended. */
export interface Ending {
  /**
   * - `done`: all is stored.
   * - `failed`: tried again at the end of the line, if it has retries left.
   * - `again`: it was told to end so that it runs later, by this runner or because the machine goes (75). It waits for
   *   its turn, before all that have not begun, and counts as no retry. A task that exits 75 of its own accord has
   *   failed: it would be started for ever.
   * - `fenced`: another attempt has the index (76). It is not started again here.
   * - `final`: no retry mends it. capture itself refused (64, 69, 126, 127), the task is too large for this machine, or
   *   what it lacks is of an earlier attempt.
   */
  readonly kind: 'done' | 'failed' | 'again' | 'fenced' | 'final';
  readonly status: ExitStatus;
  /** The signal that ended the launcher, if one did. */
  readonly signal?: number;
  readonly atMs: number;
}

/** What becomes of an index that ended: what the runner logs, and whether its work directory goes. */
export type Fate = 'done' | 'failed' | 'retry' | 'again' | 'fenced';

/** Each index is in exactly one of `waiting`, `running`, `done`, `doneAlready`, `failed` and `fenced`. */
export interface PlanCounts {
  readonly waiting: number;
  readonly running: number;
  /** Here, in this run. */
  readonly done: number;
  /** Before it, says the store. */
  readonly doneAlready: number;
  /** After the last retry. */
  readonly failed: number;
  /** Another attempt has them. */
  readonly fenced: number;
  /** Of those that wait, how many were given back. */
  readonly again: number;
  /** Of those that wait, how many have failed before. */
  readonly retrying: number;
}

/** One index that failed for good. */
export interface Failure {
  readonly index: number;
  readonly ending: Ending;
}

export interface PlanOptions {
  readonly indices: IndexSet;
  /** So many more tries of an index that failed; 0: none. */
  readonly retries: number;
  readonly halt: Halt;
}

const STATES = ['fresh', 'again', 'retrying', 'running', 'done', 'doneAlready', 'failed', 'fenced'] as const;
type State = (typeof STATES)[number];

/** More than a machine ends in a year; their plan takes 70 MB. */
const MOST_INDICES = 10_000_000;

/** What keeps these from being planned; a set of indices itself may have billions. */
export function tooMany({ ranges }: IndexSet): Mistake | undefined {
  const count = ranges.reduce((sum, { first, last, step }) => sum + Math.floor((last - first) / step) + 1, 0);
  if (count <= MOST_INDICES) return undefined;
  return {
    message: `${count} indices are more than one array can have here: ${MOST_INDICES} at most`,
    hint: 'run a part of them at a time, such as --array 0-999999, or let a task do many of the steps',
  };
}

/** Not everything is done: as `capture status` exits. */
const SOME_NOT_DONE: ExitStatus = 1;

/** What is known of one index lies in flat arrays, under its place in the order of all: some 7 bytes each. */
export class Plan {
  readonly #indices: Uint32Array;
  readonly #states: Uint8Array;
  readonly #starts: Uint16Array;
  readonly #counts = new Map<State, number>(STATES.map((state) => [state, 0]));
  readonly #again = new Line();
  readonly #retrying = new Line();
  readonly #startedMs = new Map<number, number>();
  readonly #failures: Failure[] = [];
  readonly #failedTries = new Map<number, number>();
  readonly #retries: number;
  readonly #halt: Halt;
  /** None before this place is fresh. */
  #fresh = 0;
  #stopped: Halting = 'no';

  constructor({ indices, retries, halt }: PlanOptions) {
    this.#indices = Uint32Array.from(indicesOf(indices));
    this.#states = new Uint8Array(this.#indices.length);
    this.#starts = new Uint16Array(this.#indices.length);
    this.#counts.set('fresh', this.#indices.length);
    this.#retries = retries;
    this.#halt = halt;
  }

  /** How many indices there are. */
  get size(): number {
    return this.#indices.length;
  }

  /** The store says that this index is done; it must not run. */
  doneAlready(index: number): void {
    const place = this.#placeOf(index);
    if (this.#stateAt(place) === 'running') throw new Error(`index ${index} runs`);
    this.#move(place, 'doneAlready');
  }

  /**
   * The next one to start, which stays in its place until {@link started}: those that were given back (oldest first),
   * those that have not begun (ascending), those that failed (oldest first). Undefined: none, for now or at all.
   */
  next(): number | undefined {
    if (this.halting() !== 'no') return undefined;
    const waits = (state: State) => (place: number) => this.#stateAt(place) === state;
    const place =
      this.#again.first(waits('again')) ?? this.#firstFresh() ?? this.#retrying.first(waits('retrying'));
    return place === undefined ? undefined : this.#indices[place];
  }

  /** It runs from now on. Any that waits may be started, also out of turn. */
  started(index: number, atMs: number): void {
    const place = this.#placeOf(index);
    const state = this.#stateAt(place);
    if (state === 'again') this.#again.remove(place);
    else if (state === 'retrying') this.#retrying.remove(place);
    else if (state !== 'fresh') throw new Error(`index ${index} does not wait: it is ${state}`);
    this.#move(place, 'running');
    this.#starts[place] = (this.#starts[place] ?? 0) + 1;
    this.#startedMs.set(index, atMs);
  }

  ended(index: number, ending: Ending): Fate {
    const place = this.#placeOf(index);
    if (this.#stateAt(place) !== 'running') throw new Error(`index ${index} does not run`);
    this.#startedMs.delete(index);
    const fate = this.#fateOf(index, ending);
    this.#move(place, fate === 'retry' ? 'retrying' : fate);
    if (fate === 'again') this.#again.add(place);
    if (fate === 'retry') this.#retrying.add(place);
    if (fate === 'failed') this.#failures.push({ index, ending });
    return fate;
  }

  /** How often it was started in this run. */
  startsOf(index: number): number {
    return this.#starts[this.#placeOf(index)] ?? 0;
  }

  /** Since when it runs; undefined: it does not. */
  runsSinceMs(index: number): number | undefined {
    return this.#startedMs.get(index);
  }

  /** Those that run, the oldest start first. */
  running(): readonly number[] {
    return [...this.#startedMs.keys()];
  }

  counts(): PlanCounts {
    const of = (state: State): number => this.#counts.get(state) ?? 0;
    return {
      waiting: of('fresh') + of('again') + of('retrying'),
      running: of('running'),
      done: of('done'),
      doneAlready: of('doneAlready'),
      failed: of('failed'),
      fenced: of('fenced'),
      again: of('again'),
      retrying: of('retrying'),
    };
  }

  /** Those that failed for good, in the order of their ends. */
  failures(): readonly Failure[] {
    return this.#failures;
  }

  /** The user, or the machine, wants an end, whatever `--halt` says; `soon` never takes a `now` back. */
  stop(how: 'soon' | 'now'): void {
    if (this.#stopped !== 'now') this.#stopped = how;
  }

  halting(): Halting {
    const byFailures = haltingOf(this.#halt, this.#failures.length, this.size);
    if (this.#stopped === 'now' || byFailures === 'now') return 'now';
    return this.#stopped === 'soon' ? 'soon' : byFailures;
  }

  /** True if nothing runs, and nothing is going to. */
  isOver(): boolean {
    const { running, waiting } = this.counts();
    return running === 0 && (waiting === 0 || this.halting() !== 'no');
  }

  /**
   * The exit status of the runner once it is over: 0 if all are done; 75 if it was told to stop, and some wait; 1 if
   * some failed, or `--halt` left some; 76 if all that lacks is with other attempts.
   */
  verdict(): ExitStatus {
    const { waiting, running, failed, fenced } = this.counts();
    if (waiting + running > 0 && this.#stopped !== 'no') return EXIT.preempted;
    if (failed + waiting + running > 0) return SOME_NOT_DONE;
    return fenced > 0 ? EXIT.fenced : EXIT.ok;
  }

  #fateOf(index: number, { kind }: Ending): Fate {
    if (kind === 'final') return 'failed';
    if (kind !== 'failed') return kind;
    const failed = this.#failedTries.get(index) ?? 0;
    if (failed >= this.#retries) return 'failed';
    this.#failedTries.set(index, failed + 1);
    return 'retry';
  }

  #firstFresh(): number | undefined {
    while (this.#fresh < this.size && this.#stateAt(this.#fresh) !== 'fresh') this.#fresh += 1;
    return this.#fresh < this.size ? this.#fresh : undefined;
  }

  #stateAt(place: number): State {
    return STATES[this.#states[place] ?? 0] ?? 'fresh';
  }

  #move(place: number, to: State): void {
    const from = this.#stateAt(place);
    this.#counts.set(from, (this.#counts.get(from) ?? 0) - 1);
    this.#counts.set(to, (this.#counts.get(to) ?? 0) + 1);
    this.#states[place] = STATES.indexOf(to);
  }

  #placeOf(index: number): number {
    let [low, high] = [0, this.size - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.#indices[middle] ?? 0;
      if (found === index) return middle;
      if (found < index) low = middle + 1;
      else high = middle - 1;
    }
    throw new Error(`index ${index} is not in the plan`);
  }
}

/** Who came first is first. Taking the head of a plain array costs as much as it is long. */
class Line {
  #places: number[] = [];
  #head = 0;

  add(place: number): void {
    this.#places.push(place);
  }

  /** The first that still waits; those before it are forgotten. */
  first(waits: (place: number) => boolean): number | undefined {
    for (; this.#head < this.#places.length; this.#head += 1) {
      const place = this.#places[this.#head];
      if (place !== undefined && waits(place)) return place;
    }
    return undefined;
  }

  remove(place: number): void {
    const isFirst = this.#places[this.#head] === place;
    if (isFirst) this.#head += 1;
    // Half of it is past: then copying the rest costs no more than what came before.
    if (isFirst && this.#head < 64 + this.#places.length / 2) return;
    this.#places = this.#places.slice(this.#head).filter((one) => one !== place);
    this.#head = 0;
  }
}
