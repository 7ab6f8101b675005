// One inotify instance for all runs of this process that get none of their own: a user may have so many (inotify(7),
// `max_user_instances`, often 128), and a large machine runs more tasks than that. A run with an instance of its own is
// left alone by the events of others; those that share this one also share its queue, and what overflows it.
import { newDeferred } from '../model/waiting.ts';
import { mayBeMore, splitEvents } from './event-bytes.ts';
import { IN, type OnBytes, type Reader } from './inotify.ts';

export class SpareInstance {
  #reader: Reader | undefined;
  readonly #borrowers = new Set<Borrowed>();
  /** Who watches what: two runs that watch one directory have one watch (inotify_add_watch(2)). */
  readonly #watchers = new Map<number, Set<Borrowed>>();
  #isFlushDue = false;
  /** Until the first who came has left. */
  #first: Promise<void> | undefined;

  /**
   * Before one opens an instance of its own; to be left afterwards. The others wait for the first to come: it keeps one
   * here, and they might have taken the last.
   */
  async enter(): Promise<{ leave(): void }> {
    const first = this.#first;
    const here = newDeferred<void>();
    this.#first ??= here.promise;
    await first;
    return { leave: () => here.resolve() };
  }

  /** Keeps one ready, as long as there are some. `open` is known to work on this machine. */
  keep(open: () => Reader): void {
    if (this.#reader !== undefined) return;
    try {
      this.#reader = open();
    } catch {
      return; // there is none left for anybody
    }
    this.#reader.listen((bytes, length) => {
      this.#sort(bytes, length);
      if (mayBeMore(bytes, length)) this.#reader?.drain(this.#sort);
      this.#flush();
    });
  }

  /** Undefined if there is none. */
  borrow(): Reader | undefined {
    const reader = this.#reader;
    if (reader === undefined) return undefined;
    const one = new Borrowed({
      reader,
      watchers: this.#watchers,
      read: () => {
        reader.drain(this.#sort);
        this.#flushSoon();
      },
      hurry: () => reader.readAtOnce([...this.#borrowers].some(({ isHurried }) => isHurried)),
      close: () => void this.#borrowers.delete(one),
    });
    this.#borrowers.add(one);
    return one;
  }

  readonly #sort: OnBytes = (bytes, length) => {
    splitEvents(bytes, length, (watch, mask, start, end) => {
      const isOverflow = (mask & IN.queueOverflow) !== 0;
      const concerned = isOverflow ? this.#borrowers : this.#watchers.get(watch);
      for (const one of concerned ?? []) one.add(bytes.subarray(start, end));
      if ((mask & IN.ignored) !== 0) this.#watchers.delete(watch);
    });
  };

  /** What one has read for others; each of them reads itself if it cannot wait. */
  #flushSoon(): void {
    if (this.#isFlushDue || ![...this.#borrowers].some(({ isWaiting }) => isWaiting)) return;
    this.#isFlushDue = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    this.#isFlushDue = false;
    for (const one of this.#borrowers) one.flush();
  }
}

interface BorrowedOptions {
  readonly reader: Reader;
  readonly watchers: Map<number, Set<Borrowed>>;
  /** Gives each what the kernel has for it now. */
  readonly read: () => void;
  readonly hurry: () => void;
  readonly close: () => void;
}

/** What one run sees of it: its own events, in the kernel's order. */
class Borrowed implements Reader {
  readonly mode: Reader['mode'];
  readonly #options: BorrowedOptions;
  /** Read from the kernel, and not heard yet. */
  #waiting: Buffer[] = [];
  #onBytes: OnBytes = () => undefined;
  isHurried = false;

  constructor(options: BorrowedOptions) {
    this.mode = options.reader.mode;
    this.#options = options;
  }

  watch(path: string, mask: number): number {
    const { reader, watchers } = this.#options;
    const watch = reader.watch(path, mask);
    const watching = watchers.get(watch) ?? new Set();
    watchers.set(watch, watching.add(this));
    return watch;
  }

  unwatch(watch: number): void {
    const { reader, watchers } = this.#options;
    const watching = watchers.get(watch);
    watching?.delete(this);
    if (watching !== undefined && watching.size > 0) return;
    watchers.delete(watch);
    reader.unwatch(watch);
  }

  listen(onBytes: OnBytes): void {
    this.#onBytes = onBytes;
  }

  drain(onBytes: OnBytes): void {
    this.#options.read();
    this.#hand(onBytes);
  }

  readAtOnce(atOnce: boolean): void {
    this.isHurried = atOnce;
    this.#options.hurry();
  }

  close(): Promise<void> {
    for (const [watch, watching] of this.#options.watchers) if (watching.has(this)) this.unwatch(watch);
    this.readAtOnce(false);
    this.#options.close();
    return Promise.resolve();
  }

  /** The bytes are the reader's, and change. */
  add(event: Buffer): void {
    this.#waiting.push(Buffer.copyBytesFrom(event));
  }

  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  flush(): void {
    this.#hand(this.#onBytes);
  }

  #hand(onBytes: OnBytes): void {
    if (this.#waiting.length === 0) return;
    const events = this.#waiting;
    this.#waiting = [];
    const length = events.reduce((sum, event) => sum + event.length, 0);
    const bytes = Buffer.allocUnsafeSlow(length);
    let at = 0;
    for (const event of events) at += event.copy(bytes, at);
    onBytes(bytes, length);
  }
}
