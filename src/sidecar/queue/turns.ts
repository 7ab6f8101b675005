// The order in which files are pushed: first come, first served, until time is short. Then the most urgent file goes
// first, a push that no longer fits is not begun, and one that cannot be sent in time is given up. One timer serves all
// files that wait.
import { mayStart, SendingRate, PART_BYTES, type Sending, tooLate } from '../../model/file/deadline.ts';
import type { Close, FileRole, FileState, Fingerprint } from '../../model/file/file-state.ts';
import type { RelPath } from '../../model/path.ts';
import type { FileKey } from './file-states.ts';

interface Entry<Rank> {
  readonly key: FileKey;
  readonly rank: Rank;
}

/** The queue is rebuilt only after this many keys were served. */
const FEW_SERVED = 4096;

/** The files that may have something to do. It may be changed while it is iterated. */
export class Ready<Rank> {
  /** By key: 1 if it waits. A Set of as many keys would take ten times the memory. */
  #waits = new Uint8Array(1024);
  #rankOf: ((key: FileKey) => Rank) | undefined;
  #compare: (a: Rank, b: Rank) => number = () => 0;
  /** In the order in which they came. Entries before `#first`, and keys that no longer wait, are skipped. */
  #queue: FileKey[] = [];
  #first = 0;
  /** In the order of ranks. Entries that are no longer in `#entries` are skipped. */
  #ranked: Entry<Rank>[] = [];
  readonly #entries = new Map<FileKey, Entry<Rank>>();

  add(key: FileKey): void {
    if (this.#has(key)) return;
    if (key >= this.#waits.length) {
      const more = new Uint8Array(key * 2);
      more.set(this.#waits);
      this.#waits = more;
    }
    this.#waits[key] = 1;
    if (this.#rankOf === undefined) this.#queue.push(key);
    else {
      const entry = { key, rank: this.#rankOf(key) };
      this.#entries.set(key, entry);
      this.#ranked.splice(this.#place(entry.rank), 0, entry);
    }
  }

  delete(key: FileKey): void {
    if (this.#has(key)) this.#waits[key] = 0;
    this.#entries.delete(key);
    // At once: a key that is added again must stand at the end, not at its old position.
    while (this.#first < this.#queue.length && !this.#has(this.#queue[this.#first] ?? -1)) this.#first += 1;
  }

  /** From now on `compare` gives the order. The rank of a key is computed when it is added. */
  rank(rankOf: (key: FileKey) => Rank, compare: (a: Rank, b: Rank) => number): void {
    if (this.#rankOf !== undefined) return;
    const keys = [...this.#inTurn()];
    this.#rankOf = rankOf;
    this.#compare = compare;
    this.#waits.fill(0);
    this.#queue = [];
    this.#first = 0;
    for (const key of keys) this.add(key);
  }

  *[Symbol.iterator](): Generator<FileKey> {
    if (this.#rankOf === undefined) return yield* this.#inTurn();
    this.#ranked = this.#ranked.filter((entry) => this.#entries.get(entry.key) === entry);
    for (let at = 0; at < this.#ranked.length; at += 1) {
      const entry = this.#ranked[at];
      if (entry !== undefined && this.#entries.get(entry.key) === entry) yield entry.key;
    }
  }

  #has(key: FileKey): boolean {
    return this.#waits[key] === 1;
  }

  /** Starts after the keys that were served: skipping them each time would cost more with each file. */
  *#inTurn(): Generator<FileKey> {
    if (this.#first > FEW_SERVED && this.#first * 2 > this.#queue.length) {
      this.#queue = this.#queue.slice(this.#first);
      this.#first = 0;
    }
    const queue = this.#queue;
    for (let at = this.#first; at < queue.length; at += 1) {
      const key = queue[at];
      if (key !== undefined && this.#has(key)) yield key;
    }
  }

  /** The index after all entries of equal rank. */
  #place(rank: Rank): number {
    let low = 0;
    let high = this.#ranked.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const there = this.#ranked[middle]?.rank;
      if (there !== undefined && this.#compare(there, rank) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** One timer for all files that wait for their time. */
export class Alarm {
  readonly #now: () => number;
  readonly #onDue: (keys: readonly FileKey[]) => void;
  readonly #untilMs = new Map<FileKey, number>();
  #timer: NodeJS.Timeout | undefined;
  #timerMs = Infinity;

  /** Calls `onDue` with the keys whose time has come. */
  constructor(now: () => number, onDue: (keys: readonly FileKey[]) => void) {
    this.#now = now;
    this.#onDue = onDue;
  }

  /** How many keys wait. */
  get size(): number {
    return this.#untilMs.size;
  }

  wait(key: FileKey, untilMs: number): void {
    this.#untilMs.set(key, untilMs);
    if (untilMs < this.#timerMs) this.#arm(untilMs);
  }

  cancel(key: FileKey): void {
    this.#untilMs.delete(key);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #arm(untilMs: number): void {
    clearTimeout(this.#timer);
    this.#timerMs = untilMs;
    this.#timer = setTimeout(() => this.#ring(), Math.max(1, untilMs - this.#now()));
  }

  #ring(): void {
    const nowMs = this.#now();
    const due: FileKey[] = [];
    for (const [key, untilMs] of this.#untilMs) if (untilMs <= nowMs) due.push(key);
    for (const key of due) this.#untilMs.delete(key);
    this.#timerMs = Infinity;
    let nextMs = Infinity;
    for (const untilMs of this.#untilMs.values()) nextMs = Math.min(nextMs, untilMs);
    if (nextMs !== Infinity) this.#arm(nextMs);
    this.#onDue(due);
  }
}

/** Why a push was given up at the end. */
export const NO_TIME = 'no time was left to send it';

/** What a push gets from this run, and reports to it. */
export interface PushHandle {
  /** The file was torn once: copy it to the spool first. */
  readonly spoolFirst: boolean;
  /** Aborts when the push is given up, or the whole run is. */
  readonly signal: AbortSignal;
  /** The store has received this many more bytes. */
  readonly onSent: (bytes: number) => void;
  /** The newest close that a state that was read can belong to. */
  readonly closeOf: (read: Fingerprint) => Close | undefined;
}

interface UnderWay {
  readonly role: FileRole;
  readonly sizeBytes: number;
  readonly stop: AbortController;
  sentBytes: number;
}

/**
 * The pushes in flight, and how fast their bytes are sent. With a deadline it also decides which file is still begun
 * and which push is given up, by the rules of model/file/deadline. Without one every push is begun and none is given
 * up.
 */
export class Priority {
  readonly #sizeOf: (path: RelPath) => number;
  readonly #now: () => number;
  readonly #signal: AbortSignal;
  #rate = new SendingRate();
  readonly #underWay = new Map<FileKey, UnderWay>();
  #deadlineMs: number | undefined;
  /** Stored bytes per byte of a file. */
  #ratio = 1;

  /**
   * `sizeOf`: the size of the local file in bytes; 0 if it is gone. `signal`: when it aborts, every push is given up.
   */
  constructor(sizeOf: (path: RelPath) => number, now: () => number, signal: AbortSignal) {
    this.#sizeOf = sizeOf;
    this.#now = now;
    this.#signal = signal;
    // One listener for all pushes, because there may be very many, one after the other.
    signal.addEventListener('abort', () => this.giveUpAll(signal.reason), { once: true });
  }

  /** A file that is not sent by then is never sent, ms since the epoch; undefined: no deadline. */
  get deadlineMs(): number | undefined {
    return this.#deadlineMs;
  }

  set deadlineMs(atMs: number | undefined) {
    this.#deadlineMs = atMs;
  }

  sending(fileState: Pick<FileState, 'path' | 'role'> | undefined): Sending {
    if (fileState === undefined) return { role: 'result', bytes: 0 };
    return { role: fileState.role, bytes: this.#sizeOf(fileState.path) * this.#ratio };
  }

  /** The link has changed. */
  forgetRate(): void {
    this.#rate = new SendingRate();
    for (let under = 0; under < this.#underWay.size; under += 1) this.#rate.began(this.#now());
  }

  /** How many ms sending this many bytes of files takes, as measured; undefined if nothing was measured. */
  takesMs(fileBytes: number): number | undefined {
    const rate = this.#rate.bytesPerMs(this.#now());
    return rate === undefined ? undefined : (fileBytes * this.#ratio) / rate;
  }

  /** With a deadline a checkpoint does not wait for other pushes to end. */
  isUrgent(role: FileRole): boolean {
    return this.#deadlineMs !== undefined && role === 'checkpoint';
  }

  isBegun(role: FileRole, sizeBytes: number): boolean {
    return (
      this.#deadlineMs === undefined ||
      mayStart(
        { role, bytes: sizeBytes * this.#ratio },
        [...this.#underWay.values()].map((push) => this.#left(push)),
        this.#window(this.#deadlineMs),
      )
    );
  }

  began(key: FileKey, role: FileRole, sizeBytes: number, spoolFirst: boolean): Omit<PushHandle, 'closeOf'> {
    const push = { role, sizeBytes, stop: new AbortController(), sentBytes: 0 };
    this.#underWay.set(key, push);
    this.#rate.began(this.#now());
    this.giveUpLate();
    if (this.#signal.aborted) push.stop.abort(this.#signal.reason);
    return {
      spoolFirst,
      signal: push.stop.signal,
      onSent: (bytes) => {
        push.sentBytes += bytes;
        this.#rate.sent(bytes, this.#now());
        this.giveUpLate();
      },
    };
  }

  ended(key: FileKey, isStored: boolean): void {
    const push = this.#underWay.get(key);
    if (push === undefined) return;
    this.#underWay.delete(key);
    this.#rate.ended(this.#now());
    if (isStored && push.sizeBytes > 0 && push.sentBytes > 0) {
      this.#ratio = (this.#ratio + Math.min(1, push.sentBytes / push.sizeBytes)) / 2;
    }
  }

  /** Gives up results that cannot be sent in time, in favour of those that can. */
  giveUpLate(): void {
    if (this.#deadlineMs === undefined) return;
    const pushes = [...this.#underWay.values()].map((push) => ({ ...this.#left(push), stop: push.stop }));
    // The measurement lacks bytes that the store has not acknowledged: right after a burst began, nearly all of them.
    const unheardBytes = pushes.reduce((sum, { bytes }) => sum + Math.min(bytes, PART_BYTES), 0);
    const nowMs = this.#now();
    const bytesPerMs = this.#rate.bytesPerMsWith(unheardBytes, nowMs);
    for (const { stop } of tooLate(pushes, { leftMs: this.#deadlineMs - nowMs, bytesPerMs })) {
      stop.abort(new Error(NO_TIME));
    }
  }

  /** This push is no longer of use. */
  giveUp(key: FileKey, why: unknown): void {
    this.#underWay.get(key)?.stop.abort(why);
  }

  /** No push in flight is of use any more. */
  giveUpAll(why: unknown): void {
    for (const { stop } of this.#underWay.values()) stop.abort(why);
  }

  #left({ role, sizeBytes, sentBytes }: UnderWay): Sending {
    return { role, bytes: Math.max(0, sizeBytes * this.#ratio - sentBytes) };
  }

  #window(deadlineMs: number): { leftMs: number; bytesPerMs: number | undefined } {
    const nowMs = this.#now();
    return { leftMs: deadlineMs - nowMs, bytesPerMs: this.#rate.bytesPerMs(nowMs) };
  }
}
