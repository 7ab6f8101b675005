// A map from paths to values, of which there may be hundreds of thousands: each value is a row of fixed length
// outside the JavaScript heap, and becomes an object again only when somebody asks for it.
import type { RelPath } from '../path.ts';
import { Paths } from './paths.ts';

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
