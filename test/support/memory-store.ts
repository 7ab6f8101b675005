// A store in memory for tests of its users: the whole contract of src/store/contract/store.ts, nothing more. Its
// methods are closures, so a test makes a faulty store as `{ ...store, get: ... }`.
import { StoreError } from '../../src/store/contract/store.ts';
import type {
  ObjectHead,
  ObjectMeta,
  Precondition,
  PutOutcome,
  Store,
} from '../../src/store/contract/store.ts';

/** Small, so that readers of a body get more than one chunk. */
const CHUNK_BYTES = 64 * 1024;

export interface StoredObject {
  readonly bytes: Buffer;
  readonly meta: ObjectMeta;
  readonly modifiedMs?: number;
}

export interface MemoryStore extends Store {
  /** The visible objects, which tests read and damage. */
  readonly objects: Map<string, StoredObject>;
}

export function memoryStore(url = 'memory://test'): MemoryStore {
  const objects = new Map<string, StoredObject>();
  const headOf = (key: string, object: StoredObject): ObjectHead => ({
    key,
    tag: tagOf(object),
    sizeBytes: object.bytes.length,
    meta: object.meta,
    modifiedMs: object.modifiedMs,
  });
  return {
    url,
    createsAtomically: true,
    listsByPage: false,
    replacesAtomically: async () => true,
    objects,
    put: async (key, body, { meta, precondition, signal }) => {
      const object = { bytes: await collect(body, signal), meta: { ...meta } };
      const there = objects.get(key);
      const no = refusal(precondition, there);
      if (no === undefined) objects.set(key, object);
      const isOurs = there !== undefined && there.meta['push'] === meta['push'];
      return no === undefined || isOurs ? { kind: 'stored', tag: tagOf(objects.get(key) ?? object) } : no;
    },
    get: async (key, { range, signal } = {}) => {
      signal?.throwIfAborted();
      const object = objects.get(key);
      if (object === undefined) return undefined;
      const first = range?.first ?? 0;
      if (range !== undefined && (first >= object.bytes.length || range.last < first)) {
        throw new StoreError('refused', `get ${key}: no such range ${first}-${range.last}`);
      }
      const wanted = object.bytes.subarray(first, range === undefined ? undefined : range.last + 1);
      return { ...headOf(key, object), body: chunksOf(wanted, signal) };
    },
    head: async (key, signal) => {
      signal?.throwIfAborted();
      const object = objects.get(key);
      return object === undefined ? undefined : headOf(key, object);
    },
    list: async function* list(prefix, signal) {
      const keys = [...objects.keys()].filter((key) => key.startsWith(prefix));
      for (const key of keys.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))) {
        signal?.throwIfAborted();
        const object = objects.get(key);
        if (object !== undefined)
          yield { key, sizeBytes: object.bytes.length, modifiedMs: object.modifiedMs };
      }
    },
    folders: async (prefix) => {
      const below = [...objects.keys()].filter((key) => key.startsWith(prefix));
      const names = below
        .map((key) => key.slice(prefix.length).split('/'))
        .filter(({ length }) => length > 1);
      return [...new Set(names.map(([name = '']) => name))].toSorted();
    },
    delete: async (keys, signal) => {
      signal?.throwIfAborted();
      for (const key of keys) objects.delete(key);
    },
    copy: async (from, to, signal) => {
      signal?.throwIfAborted();
      const object = objects.get(from);
      if (object === undefined) throw new StoreError('missing', `copy ${from}: not there`);
      objects.set(to, object);
    },
    promote: async (from, to, { precondition, signal } = {}) => {
      signal?.throwIfAborted();
      const object = objects.get(from);
      if (object === undefined) throw new StoreError('missing', `promote ${from}: not there`);
      const no = refusal(precondition, objects.get(to));
      if (no !== undefined) return no;
      objects.set(to, object);
      objects.delete(from);
      return { kind: 'stored', tag: tagOf(object) };
    },
    // A put is one assignment here: an interrupted one leaves nothing behind.
    sweep: async (_prefix, _mine, signal) => {
      signal?.throwIfAborted();
      return true;
    },
    confirm: async () => undefined,
    access: async () => undefined,
    close: async () => {},
  };
}

function refusal(
  precondition: Precondition | undefined,
  there: StoredObject | undefined,
): PutOutcome | undefined {
  if (precondition?.kind === 'absent') return there === undefined ? undefined : { kind: 'exists' };
  if (precondition?.kind !== 'is') return undefined;
  return there !== undefined && tagOf(there) === precondition.tag
    ? undefined
    : { kind: 'replaced-meanwhile' };
}

/** An object that a test has planted has no push id. */
function tagOf({ bytes, meta }: StoredObject): string {
  return meta['push'] ?? `${bytes.length}`;
}

async function collect(
  body: Uint8Array | AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  signal?.throwIfAborted();
  if (body instanceof Uint8Array) return Buffer.from(body);
  const parts: Buffer[] = [];
  for await (const part of body) {
    signal?.throwIfAborted();
    parts.push(Buffer.from(part));
  }
  signal?.throwIfAborted();
  return Buffer.concat(parts);
}

async function* chunksOf(bytes: Buffer, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += CHUNK_BYTES) {
    signal?.throwIfAborted();
    yield bytes.subarray(at, at + CHUNK_BYTES);
  }
}
