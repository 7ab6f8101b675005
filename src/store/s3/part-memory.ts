// The memory of the parts of one upload. Upload copies each part; the garbage collector sees 8 MiB as one small
// object and would let some eight of them pile up, so they are freed as soon as nobody reads them any more.
import { MessageChannel } from 'node:worker_threads';

/** Smaller ones may be slices of memory that others use, too (Buffer's pool). */
const WORTH_BYTES = 2 ** 20;

interface Part {
  readonly body: Uint8Array;
  isSent: boolean;
}

export class PartMemory {
  readonly #parts = new Map<number, Part>();
  readonly #begun = new Set<number>();

  /** The request for part `number` (from 1) is about to be made with all of its bytes. */
  begins(number: number, body: Uint8Array): void {
    this.#begun.add(number);
    const shared = [...this.#parts].filter(([, other]) => other.body.buffer === body.buffer);
    // Several parts of one memory: whose turn is last is not worth knowing.
    for (const [other] of shared) this.#parts.delete(other);
    if (shared.length === 0) this.#parts.set(number, { body, isSent: false });
    this.#freeWhenUnread(number - 1);
    this.#freeWhenUnread(number);
  }

  /** The part is stored, and no write is under way that still reads its bytes. */
  ends(number: number): void {
    const part = this.#parts.get(number);
    if (part === undefined) return;
    part.isSent = true;
    this.#freeWhenUnread(number);
  }

  #freeWhenUnread(number: number): void {
    const part = this.#parts.get(number);
    // Upload keeps the first byte of the next part behind the end of this one, until it has made that part.
    if (part?.isSent !== true || !this.#begun.has(number + 1)) return;
    this.#parts.delete(number);
    const { buffer } = part.body;
    if (buffer instanceof ArrayBuffer && buffer.byteLength >= WORTH_BYTES) free(buffer);
  }
}

const { port1: nowhere, port2: closed } = new MessageChannel();
closed.close();
nowhere.close();

/**
 * What is sent to a closed port is dropped, and its memory with it. (ArrayBuffer.prototype.transfer would do the
 * same from Node 21 on.)
 */
function free(buffer: ArrayBuffer): void {
  nowhere.postMessage(undefined, [buffer]);
}
