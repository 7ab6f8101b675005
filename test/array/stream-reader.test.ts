// A stream that is read from its segments while they grow and go.
import { beforeEach, describe, expect, it } from 'vitest';
import { compress } from 'zstd-napi';
import { StreamReader } from '../../src/array/stream-reader.ts';
import { listSegments, newestAttempt, streamsOf } from '../../src/array/segments.ts';
import { outputKey } from '../../src/model/format/output-keys.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const SCOPE = { taskName: 't', index: '3' };
const NEVER = new AbortController().signal;

let store: MemoryStore;
let given: string;
let gaps: string[];
beforeEach(() => {
  store = memoryStore();
  given = '';
  gaps = [];
});

function put(first: number, text: string, { attempt = 1, compressed = false } = {}): void {
  const bytes = Buffer.from(text);
  const key = outputKey(SCOPE, { attempt, stream: 'output', first, compressed });
  store.objects.set(key, { bytes: compressed ? Buffer.from(compress(bytes)) : bytes, meta: {} });
}

const reader = (): StreamReader =>
  new StreamReader({
    store,
    write: async (bytes) => {
      given += Buffer.from(bytes).toString();
    },
    onGap: (what) => gaps.push(what),
    signal: NEVER,
  });

const read = async (one: StreamReader): Promise<void> =>
  one.read(streamsOf(await listSegments(store, SCOPE, NEVER), 1).get('output') ?? []);

describe('a stream', () => {
  it('is given in its order, compressed or not', async () => {
    put(6, 'two\n', { compressed: true });
    put(0, 'one..\n');
    put(10, 'three\n');
    await read(reader());
    expect(given).toBe('one..\ntwo\nthree\n');
    expect(gaps).toEqual([]);
  });

  it('is given once, however often its last segment grows', async () => {
    const one = reader();
    put(0, 'one\n');
    await read(one);
    await read(one);
    put(0, 'one\ntwo\n');
    await read(one);
    put(8, 'three\n');
    await read(one);
    expect(given).toBe('one\ntwo\nthree\n');
  });

  it('that was read in part is given to the end of its segment, though another follows it by now', async () => {
    const one = reader();
    put(0, 'one\n');
    await read(one);
    put(0, 'one\ntwo\n');
    put(8, 'three\n');
    await read(one);
    expect(given).toBe('one\ntwo\nthree\n');
  });

  it('says what was left out of it', async () => {
    put(0, 'start\n');
    put(2 ** 20 + 6, 'end\n');
    await read(reader());
    expect(given).toBe('start\nend\n');
    expect(gaps).toEqual(['1.0 MiB are not stored here (--log-output-limit)']);
  });

  it('ends a segment that is longer than any that capture has stored', async () => {
    put(0, '\0'.repeat(65 * 2 ** 20), { compressed: true });
    await read(reader());
    expect(given.length).toBeLessThanOrEqual(64 * 2 ** 20);
    expect(gaps).toEqual(['more than 64.0 MiB in one piece: capture has not stored that']);
  });

  it('goes on behind a segment that was deleted since it was listed', async () => {
    put(0, 'one\n');
    put(4, 'two\n');
    put(8, 'three\n');
    const listed = await listSegments(store, SCOPE, NEVER);
    store.objects.delete(outputKey(SCOPE, { attempt: 1, stream: 'output', first: 4, compressed: false }));
    await reader().read(listed);
    expect(given).toBe('one\nthree\n');
    expect(gaps).toEqual(['4 B are not stored here (--log-output-limit)']);
  });
});

it('the newest attempt is found from the listing', async () => {
  put(0, 'x', { attempt: 2 });
  put(0, 'x', { attempt: 12 });
  store.objects.set('.capture/~output/t/3/misplaced', { bytes: Buffer.alloc(1), meta: {} });
  expect(newestAttempt(await listSegments(store, SCOPE, NEVER))).toBe(12);
  expect(newestAttempt([])).toBeUndefined();
});
