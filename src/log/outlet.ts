// Where messages leave the process: at once if somebody reads, otherwise from a bounded queue. If the reader has
// stopped (Ctrl-S, a stopped tee), the oldest messages are lost; the work never waits.
import { setTimeout as sleep } from 'node:timers/promises';
import { openTryWrite, type TryWrite } from '../native/shared-output.ts';

/** The queue, beside the 64 KiB that a pipe holds: a burst of some thousand lines. */
const MOST_BYTES = 256 * 1024;
const LOOK_AGAIN_MS = 50;
/** At the end, do not wait for a reader that reads nothing for this long, nor longer than this in all. */
const IDLE_LOOKS = 20;
const MOST_LOOKS = 100;

interface Waiting {
  readonly bytes: Buffer;
  /** Messages that are lost with this entry. */
  readonly messages: number;
}

export class Outlet {
  readonly #fd: number;
  readonly #sayDropped: (count: number) => string;
  #tryWrite: TryWrite | undefined;
  readonly #queue: Waiting[] = [];
  #queuedBytes = 0;
  /** Bytes of the first entry that are already written. */
  #writtenBytes = 0;
  #outEver = 0;
  #dropped = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `sayDropped` returns the line that replaces this many dropped messages. */
  constructor(fd: number, sayDropped: (count: number) => string) {
    this.#fd = fd;
    this.#sayDropped = sayDropped;
  }

  /** True while messages wait for a reader, or are on their way to a file server. */
  get isWaiting(): boolean {
    return this.#queue.length > 0 || this.#tryWrite?.isBusy === true;
  }

  /** Takes the whole text and never blocks. Keeps the order; the text is lost if it can never be written. */
  write(text: string): void {
    if (text === '' || this.#isClosed) return;
    this.#put({ bytes: Buffer.from(text, 'utf8'), messages: 1 }, this.#queue.length);
    if (this.#timer === undefined) this.#flush();
    while (this.#queuedBytes > MOST_BYTES && this.#dropOldest());
  }

  /** Resolves when everything is written, or after a second in which nobody read. */
  async drain(): Promise<void> {
    let idle = 0;
    for (let looks = 0; this.isWaiting && looks < MOST_LOOKS && idle < IDLE_LOOKS; looks += 1) {
      const before = this.#outEver;
      this.#flush();
      idle = this.#outEver === before ? idle + 1 : 0;
      // oxlint-disable-next-line no-await-in-loop -- the pause
      if (this.isWaiting) await sleep(LOOK_AGAIN_MS);
    }
  }

  /** Pending and later text is lost: the descriptor may belong to somebody else by then. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#queue.length = 0;
    this.#tryWrite?.close();
  }

  #put(waiting: Waiting, at: number): void {
    this.#queue.splice(at, 0, waiting);
    this.#queuedBytes += waiting.bytes.length;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#tryWrite ??= openTryWrite(this.#fd, () => this.#flush());
    for (let first = this.#first(); first !== undefined; first = this.#first()) {
      const taken = this.#tryWrite.write(first.bytes.subarray(this.#writtenBytes));
      if (taken === 0) {
        this.#timer = setTimeout(() => this.#flush(), LOOK_AGAIN_MS).unref();
        return;
      }
      this.#outEver += taken;
      this.#writtenBytes += taken;
      if (this.#writtenBytes < first.bytes.length) continue;
      this.#queue.shift();
      this.#queuedBytes -= first.bytes.length;
      this.#writtenBytes = 0;
    }
  }

  /** The next text to write. The line about dropped messages comes before the messages after them. */
  #first(): Waiting | undefined {
    const [first] = this.#queue;
    if (first === undefined || this.#writtenBytes > 0 || this.#dropped === 0) return first;
    this.#put({ bytes: Buffer.from(this.#sayDropped(this.#dropped), 'utf8'), messages: this.#dropped }, 0);
    this.#dropped = 0;
    return this.#queue[0];
  }

  /** Never drops the newest, nor one that is partly written. False: there is no other. */
  #dropOldest(): boolean {
    const at = this.#writtenBytes > 0 ? 1 : 0;
    if (at >= this.#queue.length - 1) return false;
    const [gone] = this.#queue.splice(at, 1);
    this.#queuedBytes -= gone?.bytes.length ?? 0;
    this.#dropped += gone?.messages ?? 0;
    return true;
  }
}
