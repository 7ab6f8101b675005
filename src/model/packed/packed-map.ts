// Maps and lists of paths, of which there may be hundreds of thousands: each value is a row of fixed length outside the
// JavaScript heap, each path is kept once, and both become what they were only when somebody asks for them.
import type { RelPath } from '../path.ts';

/** How a value becomes a row, and the same value again. */
export interface RowCodec<V> {
  readonly bytes: number;
  /** False if the value does not fit into a row: then it is kept as it is. */
  write(value: V, row: Buffer, at: number, path: RelPath): boolean;
  read(row: Buffer, at: number, path: RelPath): V;
}

/** The methods that this map shares with Map: small ones are Maps. Values are copies: to change one, `set` it. */
export interface PathMap<V> {
  readonly size: number;
  get(path: RelPath): V | undefined;
  has(path: RelPath): boolean;
  set(path: RelPath, value: V): unknown;
  delete(path: RelPath): boolean;
  keys(): Iterable<RelPath>;
  values(): Iterable<V>;
  [Symbol.iterator](): Iterator<[RelPath, V]>;
}

const ROWS_PER_BLOCK = 1024;
/** The first byte of a row. */
const ABSENT = 0;
const ROW = 1;
const AS_IT_IS = 2;

export class PackedMap<V> implements PathMap<V> {
  readonly #codec: RowCodec<V>;
  readonly #paths: Paths;
  readonly #rowBytes: number;
  /** Rows by the path's number; a block without any row is not there. */
  readonly #blocks: (Buffer | undefined)[] = [];
  /** How many rows of each block there are. */
  readonly #counts: number[] = [];
  readonly #asTheyAre = new Map<number, V>();
  #size = 0;

  /** Maps of the same paths share them. */
  constructor(codec: RowCodec<V>, paths = new Paths()) {
    this.#codec = codec;
    this.#paths = paths;
    this.#rowBytes = codec.bytes + 1;
  }

  get size(): number {
    return this.#size;
  }

  get(path: RelPath): V | undefined {
    const id = this.#paths.find(path);
    return id === undefined ? undefined : this.#read(id, path);
  }

  /** The value of the path with this number. */
  at(id: number): V | undefined {
    return this.#read(id, this.#paths.pathOf(id));
  }

  has(path: RelPath): boolean {
    const id = this.#paths.find(path);
    return id !== undefined && this.#kindOf(id) !== ABSENT;
  }

  set(path: RelPath, value: V): this {
    const id = this.#paths.idOf(path);
    const number = Math.floor(id / ROWS_PER_BLOCK);
    const block = (this.#blocks[number] ??= Buffer.alloc(ROWS_PER_BLOCK * this.#rowBytes));
    const at = (id % ROWS_PER_BLOCK) * this.#rowBytes;
    if (block[at] === ABSENT) this.#count(number, 1);
    if (block[at] === AS_IT_IS) this.#asTheyAre.delete(id);
    const fits = this.#codec.write(value, block, at + 1, path);
    block[at] = fits ? ROW : AS_IT_IS;
    if (!fits) this.#asTheyAre.set(id, value);
    return this;
  }

  delete(path: RelPath): boolean {
    const id = this.#paths.find(path);
    if (id === undefined || this.#kindOf(id) === ABSENT) return false;
    const number = Math.floor(id / ROWS_PER_BLOCK);
    const block = this.#blocks[number];
    if (block !== undefined) block[(id % ROWS_PER_BLOCK) * this.#rowBytes] = ABSENT;
    this.#asTheyAre.delete(id);
    this.#count(number, -1);
    return true;
  }

  /** In the order in which the paths first came. As with a Map, it may be changed meanwhile. */
  *keys(): Generator<RelPath> {
    for (const id of this.#ids()) yield this.#paths.pathOf(id);
  }

  *values(): Generator<V> {
    for (const [, value] of this) yield value;
  }

  *[Symbol.iterator](): Generator<[RelPath, V]> {
    for (const id of this.#ids()) {
      const path = this.#paths.pathOf(id);
      const value = this.#read(id, path);
      if (value !== undefined) yield [path, value];
    }
  }

  *#ids(): Generator<number> {
    for (let id = 0; id < this.#blocks.length * ROWS_PER_BLOCK; id += 1) {
      if (this.#kindOf(id) !== ABSENT) yield id;
    }
  }

  #count(block: number, by: 1 | -1): void {
    this.#size += by;
    const left = (this.#counts[block] ?? 0) + by;
    this.#counts[block] = left;
    if (left === 0) this.#blocks[block] = undefined;
  }

  #kindOf(id: number): number {
    const block = this.#blocks[Math.floor(id / ROWS_PER_BLOCK)];
    return block?.[(id % ROWS_PER_BLOCK) * this.#rowBytes] ?? ABSENT;
  }

  #read(id: number, path: RelPath): V | undefined {
    const block = this.#blocks[Math.floor(id / ROWS_PER_BLOCK)];
    const at = (id % ROWS_PER_BLOCK) * this.#rowBytes;
    if (block === undefined || block[at] === ABSENT) return undefined;
    return block[at] === AS_IT_IS ? this.#asTheyAre.get(id) : this.#codec.read(block, at + 1, path);
  }
}

/**
 * Values with a path each, in their order, for lists that are kept until they have been read once more: the same
 * values in the same order, as often as it is iterated.
 */
export function rowList<V extends { readonly path: RelPath }>(
  values: readonly V[],
  codec: RowCodec<V>,
  paths: Paths,
): Iterable<V> {
  const rows = Buffer.allocUnsafeSlow(values.length * codec.bytes);
  const ids = Uint32Array.from(values, ({ path }) => paths.idOf(path));
  const asTheyAre = new Map<number, V>();
  for (const [at, value] of values.entries())
    if (!codec.write(value, rows, at * codec.bytes, value.path)) asTheyAre.set(at, value);
  return {
    *[Symbol.iterator]() {
      for (const [at, id] of ids.entries())
        yield asTheyAre.get(at) ?? codec.read(rows, at * codec.bytes, paths.pathOf(id));
    },
  };
}

/** Text is kept in pieces of this many bytes; a longer path gets a piece of its own. */
const PIECE_BYTES = 65_536;
const FIRST_SLOTS = 1024;
/** Bytes before each text: its length in bytes, doubled; odd if it has two bytes for each UTF-16 unit. */
const HEAD_BYTES = 4;

/**
 * The paths of a run, each kept once and known by a number. Nothing is ever forgotten: a path keeps its number for the
 * whole run.
 */
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
  /** What was asked for last: one step of a file asks several maps for its path. */
  #last: { readonly path: RelPath; readonly id: number } | undefined;

  /** How many there are: numbers are 0 to `count - 1`, in the order in which the paths came. */
  get count(): number {
    return this.#count;
  }

  /** The number of a path; undefined if it has none yet. */
  find(path: RelPath): number | undefined {
    if (this.#last?.path === path) return this.#last.id;
    const entry = this.#slots[this.#slotOf(path, hashOf(path))] ?? 0;
    return entry === 0 ? undefined : this.#found(path, entry - 1);
  }

  /** The number of a path; it gets one if it has none. */
  idOf(path: RelPath): number {
    if (this.#last?.path === path) return this.#last.id;
    const hash = hashOf(path);
    const slot = this.#slotOf(path, hash);
    const entry = this.#slots[slot] ?? 0;
    if (entry !== 0) return this.#found(path, entry - 1);
    const id = this.#count;
    this.#count += 1;
    this.#slots[slot] = id + 1;
    this.#hashes[id] = hash;
    this.#places[id] = this.#keep(path);
    if (this.#count * 2 >= this.#slots.length) this.#grow();
    return this.#found(path, id);
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

  #found(path: RelPath, id: number): number {
    this.#last = { path, id };
    return id;
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
