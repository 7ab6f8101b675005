// Maps and lists of paths that may hold hundreds of thousands of entries. Each value is a row of fixed length outside
// the JavaScript heap, and each path is kept once. Values and paths become JavaScript values only when they are read.
import type { RelPath } from '../path.ts';

/** Converts a value to a row and back, without loss. */
export interface RowCodec<V> {
  readonly bytes: number;
  /** False if the value does not fit into a row: then the map keeps the value itself. */
  write(value: V, row: Buffer, at: number, path: RelPath): boolean;
  read(row: Buffer, at: number, path: RelPath): V;
}

/** The methods that PackedMap shares with Map: small maps are Maps. Values are copies: to change one, `set` it. */
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
  /** Rows by path number. A block without rows is undefined. */
  readonly #blocks: (Buffer | undefined)[] = [];
  /** The number of rows in each block. */
  readonly #counts: number[] = [];
  readonly #asTheyAre = new Map<number, V>();
  #size = 0;

  /** Maps of the same paths share `paths`. */
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

  /** In the order in which the paths were first seen. As with a Map, changes during the iteration are allowed. */
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

  /** Calls `look` for each packed row, with the number of its path: for a pass over very many rows. */
  eachRow(look: (row: Buffer, at: number, id: number) => void): void {
    for (const [number, block] of this.#blocks.entries()) {
      if (block === undefined) continue;
      for (let n = 0; n < ROWS_PER_BLOCK; n += 1) {
        const at = n * this.#rowBytes;
        if (block[at] !== ABSENT) look(block, at + 1, number * ROWS_PER_BLOCK + n);
      }
    }
  }

  *#ids(): Generator<number> {
    for (let number = 0; number < this.#blocks.length; number += 1) {
      if (this.#blocks[number] === undefined) continue;
      for (let id = number * ROWS_PER_BLOCK; id < (number + 1) * ROWS_PER_BLOCK; id += 1)
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
 * A list of values with a path each, for lists that are kept only to be read once more. Each iteration yields equal
 * values in the same order.
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

/** Text is kept in blocks of this many bytes; a longer path gets its own block. */
const PIECE_BYTES = 65_536;
const FIRST_SLOTS = 1024;
/**
 * Bytes before each text. They hold its length in bytes, doubled; odd if the text has two bytes for each UTF-16 unit.
 */
const HEAD_BYTES = 4;

/** The paths of a run, each kept once and known by a number. A path keeps its number for the whole run. */
export class Paths {
  readonly #pieces: Buffer[] = [];
  /** Bytes used in the last piece. */
  #taken = PIECE_BYTES;
  /** By number: the piece times PIECE_BYTES, plus the offset of the text in it. */
  #places = new Float64Array(FIRST_SLOTS / 2);
  #hashes = new Uint32Array(FIRST_SLOTS / 2);
  /** Number + 1, in the first free slot after its hash; 0 means free. At most half full. */
  #slots = new Uint32Array(FIRST_SLOTS);
  #count = 0;
  /** The last path looked up: one step of a file looks up its path in several maps. */
  #last: { readonly path: RelPath; readonly id: number } | undefined;

  /** How many paths there are. Numbers are 0 to `count - 1`, in the order in which the paths were first seen. */
  get count(): number {
    return this.#count;
  }

  /** The number of a path; undefined if it has none. */
  find(path: RelPath): number | undefined {
    if (this.#last?.path === path) return this.#last.id;
    const entry = this.#slots[this.#slotOf(path, hashOf(path))] ?? 0;
    return entry === 0 ? undefined : this.#found(path, entry - 1);
  }

  /** The number of a path; a new path gets one. */
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

  /** Throws for an unknown number. */
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
    // Lossless for every string.
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

const anyUint32 = (): number => Math.floor(Math.random() * 2 ** 32);
/** Drawn for each process, so that a task cannot choose names that all have the same hash. */
let hashSeed: { readonly start: number; readonly factor: number } | undefined;

/** Over UTF-16 units, then mixed: its low bits choose the slot. */
function hashOf(path: RelPath): number {
  hashSeed ??= { start: anyUint32(), factor: anyUint32() | 1 };
  let hash = hashSeed.start;
  for (let at = 0; at < path.length; at += 1) {
    hash = Math.imul(hash ^ path.charCodeAt(at), hashSeed.factor);
    hash ^= hash >>> 15;
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}
