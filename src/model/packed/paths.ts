// The paths of a run, each kept once, outside the JavaScript heap, and known by a number: a task may write hundreds
// of thousands of files. Nothing is ever forgotten: a path keeps its number for the whole run.
import type { RelPath } from '../path.ts';

/** Text is kept in pieces of this many bytes; a longer path gets a piece of its own. */
const PIECE_BYTES = 65_536;
const FIRST_SLOTS = 1024;
/** Bytes before each text: its length in bytes, doubled; odd if it has two bytes for each UTF-16 unit. */
const HEAD_BYTES = 4;

export class Paths {
  readonly #pieces: Buffer[] = [];
  /** How many bytes of the last piece are taken. */
  #taken = PIECE_BYTES;
  /** By number: piece times PIECE_BYTES, plus the place where the text begins in it. */
  #places = new Float64Array(FIRST_SLOTS / 2);
  #hashes = new Uint32Array(FIRST_SLOTS / 2);
  /** Number + 1 in the first free slot after its hash; 0 means free. Never more than half full. */
  #slots = new Uint32Array(FIRST_SLOTS);
  #count = 0;

  /** How many there are: numbers are 0 to `count - 1`, in the order in which the paths came. */
  get count(): number {
    return this.#count;
  }

  /** The number of a path; undefined if it has none yet. */
  find(path: RelPath): number | undefined {
    const entry = this.#slots[this.#slotOf(path, hashOf(path))] ?? 0;
    return entry === 0 ? undefined : entry - 1;
  }

  /** The number of a path; it gets one if it has none. */
  idOf(path: RelPath): number {
    const hash = hashOf(path);
    const slot = this.#slotOf(path, hash);
    const entry = this.#slots[slot] ?? 0;
    if (entry !== 0) return entry - 1;
    const id = this.#count;
    this.#count += 1;
    this.#slots[slot] = id + 1;
    this.#hashes[id] = hash;
    this.#places[id] = this.#keep(path);
    if (this.#count * 2 >= this.#slots.length) this.#grow();
    return id;
  }

  /** Throws for a number that was never given. */
  pathOf(id: number): RelPath {
    const place = this.#places[id] ?? 0;
    const piece = this.#pieces[Math.floor(place / PIECE_BYTES)];
    if (piece === undefined || id >= this.#count) throw new RangeError(`no path has the number ${id}`);
    const at = place % PIECE_BYTES;
    const head = piece.readUInt32LE(at);
    const end = at + HEAD_BYTES + (head >>> 1);
    return piece.toString(head % 2 === 1 ? 'utf16le' : 'latin1', at + HEAD_BYTES, end);
  }

  #slotOf(path: RelPath, hash: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const entry = this.#slots[slot] ?? 0;
      if (entry === 0 || (this.#hashes[entry - 1] === hash && this.pathOf(entry - 1) === path)) return slot;
    }
  }

  #keep(path: RelPath): number {
    // Lossless for every string, whatever the name holds.
    const wide = /[^\0-\u00ff]/.test(path);
    const bytes = wide ? path.length * 2 : path.length;
    if (this.#taken + HEAD_BYTES + bytes > PIECE_BYTES) {
      this.#pieces.push(Buffer.allocUnsafeSlow(Math.max(PIECE_BYTES, HEAD_BYTES + bytes)));
      this.#taken = 0;
    }
    const at = this.#taken;
    const piece = this.#pieces.at(-1);
    piece?.writeUInt32LE(bytes * 2 + (wide ? 1 : 0), at);
    piece?.write(path, at + HEAD_BYTES, wide ? 'utf16le' : 'latin1');
    this.#taken += HEAD_BYTES + bytes;
    return (this.#pieces.length - 1) * PIECE_BYTES + at;
  }

  #grow(): void {
    const slots = new Uint32Array(this.#slots.length * 2);
    for (let id = 0; id < this.#count; id += 1) {
      let slot = (this.#hashes[id] ?? 0) & (slots.length - 1);
      while (slots[slot] !== 0) slot = (slot + 1) & (slots.length - 1);
      slots[slot] = id + 1;
    }
    this.#slots = slots;
    const places = new Float64Array(slots.length / 2);
    places.set(this.#places);
    this.#places = places;
    const hashes = new Uint32Array(slots.length / 2);
    hashes.set(this.#hashes);
    this.#hashes = hashes;
  }
}

/** FNV-1a over UTF-16 units, then mixed: its low bits choose the slot. */
function hashOf(path: RelPath): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < path.length; at += 1) hash = Math.imul(hash ^ path.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
