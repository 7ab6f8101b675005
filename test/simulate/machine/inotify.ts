// inotify(7): each instance has an ordered queue of limited length, which drops an event that equals the last one.
// Events are read as bytes, as from the kernel.
import type { Inode, Watching } from './inode.ts';

export const IN = {
  CLOSE_WRITE: 0x8,
  MOVED_FROM: 0x40,
  MOVED_TO: 0x80,
  CREATE: 0x100,
  Q_OVERFLOW: 0x4000,
  IGNORED: 0x8000,
  ISDIR: 0x40000000,
} as const;

interface InotifyWatch extends Watching {
  readonly inode: Inode;
}

interface Queued {
  readonly watch: number;
  readonly mask: number;
  readonly cookie: number;
  readonly name: string;
}

const HEADER_BYTES = 16;

export class InotifyInstance {
  readonly #mostQueued: number;
  readonly #onDropped: () => void;
  readonly #watches = new Map<number, InotifyWatch>();
  #queue: Queued[] = [];
  #lastNumber = 0;
  /** Called when there is something to read. */
  onReadable: (() => void) | undefined;

  constructor(mostQueued: number, onDropped: () => void) {
    this.#mostQueued = mostQueued;
    this.#onDropped = onDropped;
  }

  /** One watch for each inode, whichever path leads to it. */
  add(inode: Inode, mask: number): number {
    for (const watch of inode.watches) {
      if (watch.instance !== this) continue;
      watch.mask = mask;
      return watch.number;
    }
    const watch = { instance: this, number: (this.#lastNumber += 1), inode, mask };
    inode.watches.add(watch);
    this.#watches.set(watch.number, watch);
    return watch.number;
  }

  remove(number: number): boolean {
    const watch = this.#watches.get(number);
    if (watch === undefined) return false;
    this.#watches.delete(number);
    watch.inode.watches.delete(watch);
    this.queue({ watch: number, mask: IN.IGNORED, cookie: 0, name: '' });
    return true;
  }

  close(): void {
    for (const watch of this.#watches.values()) watch.inode.watches.delete(watch);
    this.#watches.clear();
    this.onReadable = undefined;
  }

  queue(event: Queued): void {
    const last = this.#queue.at(-1);
    if (last !== undefined && isSame(last, event)) return;
    if (this.#queue.length >= this.#mostQueued) {
      this.#onDropped();
      if (last?.mask === IN.Q_OVERFLOW) return;
      this.#queue.push({ watch: -1, mask: IN.Q_OVERFLOW, cookie: 0, name: '' });
    } else this.#queue.push(event);
    this.onReadable?.();
  }

  get queuedBytes(): number {
    return this.#queue.reduce((sum, event) => sum + bytesOf(event), 0);
  }

  get isReadable(): boolean {
    return this.#queue.length > 0;
  }

  /** Reads as many whole events as fit; 0 if there is none. */
  read(bytes: Buffer): number {
    let at = 0;
    let taken = 0;
    for (const event of this.#queue) {
      const length = bytesOf(event);
      if (at + length > bytes.length) break;
      bytes.fill(0, at, at + length);
      bytes.writeInt32LE(event.watch, at);
      bytes.writeUInt32LE(event.mask, at + 4);
      bytes.writeUInt32LE(event.cookie, at + 8);
      bytes.writeUInt32LE(length - HEADER_BYTES, at + 12);
      bytes.write(event.name, at + HEADER_BYTES);
      at += length;
      taken += 1;
    }
    this.#queue = this.#queue.slice(taken);
    return at;
  }
}

function isSame(one: Queued, other: Queued): boolean {
  return (
    one.watch === other.watch &&
    one.mask === other.mask &&
    one.cookie === other.cookie &&
    one.name === other.name
  );
}

function bytesOf({ name }: Queued): number {
  return HEADER_BYTES + (name === '' ? 0 : Math.ceil((Buffer.byteLength(name) + 1) / 16) * 16);
}

/** Sends an event to all watches of this directory. */
export function notify(directory: Inode, mask: number, name: string, cookie = 0): void {
  for (const watch of directory.watches) {
    if ((watch.mask & mask & ~IN.ISDIR) === 0) continue;
    watch.instance.queue({ watch: watch.number, mask, cookie, name });
  }
}
