// One inotify instance for all runs of this process that get none of their own. A user has a limited number
// (inotify(7), `max_user_instances`, often 128), and a large machine runs more tasks than that. A run with an instance
// of its own sees no events of others; runs that share this one also share its queue and its overflows.
import { newDeferred } from '../model/waiting.ts';
import { mayBeMore, splitEvents } from './event-bytes.ts';
import { IN, type OnBytes, type Reader } from './inotify.ts';

export class SpareInstance {
  #reader: Reader | undefined;
  readonly #borrowers = new Set<Borrowed>();
  /** The runs of each watch: two runs that watch one directory share one watch (inotify_add_watch(2)). */
  readonly #watchers = new Map<number, Set<Borrowed>>();
  #isFlushDue = false;
  /** Resolves when the first run that entered has left. */
  #first: Promise<void> | undefined;

  /**
   * Call it before a run opens an instance of its own, and leave() afterwards. The other runs wait for the first one,
   * which puts a spare instance here: otherwise they might have taken the last one.
   */
  async enter(): Promise<{ leave(): void }> {
    const first = this.#first;
    const here = newDeferred<void>();
    this.#first ??= here.promise;
    await first;
    return { leave: () => here.resolve() };
  }

  /** Keeps one spare instance ready, if there is one left. `open` is known to work on this machine. */
  keep(open: () => Reader): void {
    if (this.#reader !== undefined) return;
    try {
      this.#reader = open();
    } catch {
      return; // no instance is left
    }
    this.#reader.listen((bytes, length) => {
      this.#sort(bytes, length);
      if (mayBeMore(bytes, length)) this.#reader?.drain(this.#sort);
      this.#flush();
    });
  }

  /** Undefined if there is no spare instance. */
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

  /** Hands over events that one run has read for others. A run that cannot wait reads them itself. */
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
  /** Hands each run the events that the kernel has for it now. */
  readonly read: () => void;
  readonly hurry: () => void;
  readonly close: () => void;
}

/** What one run sees of the shared instance: its own events, in the kernel's order. */
class Borrowed implements Reader {
  readonly mode: Reader['mode'];
  readonly #options: BorrowedOptions;
  /** Events that were read from the kernel and not delivered yet. */
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

  /** Copies: the bytes are in the reader's buffer, which changes. */
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
