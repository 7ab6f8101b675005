// The objects of one result. Its content comes compressed, then too small for it: its object has one of two keys, and the
// one that it has left is deleted once a record names the other. Its close may be a death's: then its object stands
// beside the name until that is settled.
import { TaskNews } from '../../../src/sidecar/run/task-news.ts';
import { createHash, randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Close, type FileState, newFileState } from '../../../src/model/file/file-state.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { Paths } from '../../../src/model/packed/packed-map.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import type { Body } from '../../../src/read/reading.ts';
import { Results } from '../../../src/sidecar/queue/results.ts';
import type { PushHandle } from '../../../src/sidecar/queue/turns.ts';
import { memoryStore, type MemoryStore } from '../../support/memory-store.ts';

const SMALL = 'plain';
const LARGE = 'compressed, says the worker';
const HANDLE: PushHandle = {
  spoolFirst: false,
  signal: new AbortController().signal,
  onSent: () => undefined,
  closeOf: () => undefined,
};
let nowMs = 0;
const FILE: FileState = newFileState('r.dat', 'result');

let store: MemoryStore;
let results: Results;
let content: string;
let ledgerResults: Map<string, StoredFile>;
/** Pushes that a record names. */
let isRecorded: (push: string) => boolean;
let partials: StoredFile[];
/** When the content was written, ns. */
let mtimeNs: string;
/** Each deletion waits for it. */
let mayDelete: Promise<void>;
let deleting: () => void;

beforeEach(() => {
  nowMs = 0;
  store = memoryStore();
  mayDelete = Promise.resolve();
  deleting = () => undefined;
  ledgerResults = new Map();
  isRecorded = () => true;
  partials = [];
  mtimeNs = '1';
  const context = {
    attempt: 1,
    store,
    now: () => nowMs,
    taskNews: new TaskNews(() => nowMs),
    log: { debug: () => undefined, warn: () => undefined },
    scope: { taskName: 't', index: '1' },
    paths: new Paths(),
    history: { foreignResults: new Map(), attempts: [] },
    inherited: new Map(),
    baselines: { get: (path: string) => ledgerResults.get(path), stored: () => undefined },
    outage: { isKnown: false },
    signal: new AbortController().signal,
    manifest: { rolesOf: () => ({ result: true, checkpoint: false, input: false, companion: false }) },
    fence: { pass: async () => undefined, passAnew: async () => undefined },
    ledger: {
      results: ledgerResults,
      keptOf: () => 0,
      isRecorded: ({ push }: StoredFile) => isRecorded(push),
      notePartial: (file: StoredFile) => void partials.push(file),
      dropPartials: (_: string, until?: StoredFile) =>
        partials.splice(
          0,
          until === undefined ? partials.length : partials.findIndex(({ push }) => push === until.push) + 1,
        ),
      noteKept: () => undefined,
      noteResult: (file: StoredFile) => {
        ledgerResults.set(file.path, file);
        return [];
      },
    },
    tidy: {
      delete: async (keys: readonly string[]) => {
        if (keys.length > 0) deleting();
        await mayDelete;
        await store.delete(keys);
      },
    },
    sender: {
      root: { fd: -1, path: '/nowhere' },
      store,
      attempt: 1,
      runToken: 'run',
      index: '1',
      runId: undefined,
      compression: { kind: 'zstd', level: 1 },
      newId: randomUUID,
      onSpoolFull: () => undefined,
      workers: { read: async (job: { readonly baseline?: StoredFile }) => readingOf(content, job.baseline) },
    },
  } as unknown as ConstructorParameters<typeof Results>[0];
  results = new Results(context);
});

function readingOf(text: string, baseline: StoredFile | undefined): Body {
  const bytes = new Uint8Array(Buffer.from(text));
  const size = bytes.length;
  const facts = { dev: '1', ino: '1', size, mtimeNs, ctimeNs: '1', mode: 0o644, links: 1 };
  const md5 = createHash('md5').update(bytes).digest('hex');
  const parts = (async function* parts() {
    yield bytes;
  })();
  if (md5 === baseline?.md5) return { kind: 'unchanged', md5, facts } as unknown as Body;
  const proof = { md5, facts, storedBytes: size };
  return {
    kind: 'body',
    facts,
    compressed: text === LARGE,
    spool: 'unused',
    parts: Object.assign(parts, { release: () => undefined }),
    done: Promise.resolve(proof),
  } as unknown as Body;
}

async function push(text: string): Promise<void> {
  content = text;
  expect((await results.push(FILE, HANDLE)).kind).toBe('stored');
}

it('an object that no longer belongs to the result is deleted', async () => {
  await push(LARGE);
  await push(SMALL);
  expect([...store.objects.keys()].toSorted()).toEqual(['r.dat.1', 'r.dat.1.zst']);
  await results.deleteObsolete();
  expect([...store.objects.keys()]).toEqual(['r.dat.1']);
});

async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

it('a file that this run has stored, and finds unchanged at the next close, is not reclaimed before a record names it', async () => {
  await push(SMALL);
  expect((await results.push(FILE, HANDLE)).kind).toBe('unchanged');
  isRecorded = () => false;
  expect(await allOf(results.readyToReclaim())).toEqual([]);
  isRecorded = () => true;
  expect(await allOf(results.readyToReclaim())).toMatchObject([{ path: 'r.dat' }]);
});

it('content that returns to a key during its deletion is pushed after the deletion', async () => {
  await push(LARGE);
  await push(SMALL);
  const begun = newDeferred<void>();
  const may = newDeferred<void>();
  deleting = () => begun.resolve();
  mayDelete = may.promise;
  const deletion = results.deleteObsolete();
  await begun.promise;
  const pushed = push(LARGE);
  // Time enough for a push that waits for nothing.
  for (let turn = 0; turn < 10; turn += 1) await new Promise(setImmediate);
  may.resolve();
  await Promise.all([deletion, pushed]);
  expect(store.objects.has('r.dat.1.zst')).toBe(true);
});

it('no object of a result is deleted while it is pushed', async () => {
  await push(LARGE);
  await push(SMALL);
  let isDeleted = false;
  deleting = () => {
    isDeleted = true;
  };
  const pushed = push(LARGE);
  await results.deleteObsolete();
  expect(isDeleted).toBe(false);
  await pushed;
  await results.deleteObsolete();
  expect([...store.objects.keys()]).toEqual(['r.dat.1.zst']);
});

it('content that returns to what was stored is sent again if a put of other content was not answered', async () => {
  await push('one');
  const { put } = store;
  store.put = async (...args) => {
    await put.apply(store, args);
    throw new Error('the answer is lost');
  };
  content = 'two';
  await expect(results.push({ ...FILE, closes: 2 }, HANDLE)).rejects.toThrow('the answer is lost');
  store.put = put;
  await push('one');
  expect(store.objects.get('r.dat.1')?.bytes.toString()).toBe('one');
  content = 'one';
  expect((await results.push(FILE, HANDLE)).kind).toBe('unchanged');
});

it.each([
  ['the newest close has been found unchanged', { pending: false, pushing: false }, true],
  ['the newest close waits for its push', { pending: true, pushing: false }, false],
  ['the newest close is being pushed', { pending: true, pushing: true }, false],
])('a state with the size and mtime of what is stored has its name if %s', async (_, how, isNamed) => {
  await push(SMALL);
  const over = [...ledgerResults.values()].map((one) => one.push);
  const size = SMALL.length;
  const durable = { fingerprint: { dev: '1', ino: '1', ctimeNs: '1', size, mtimeNs }, md5: 'same', size };
  const behind = { path: 'r.dat', open: false, size, mtimeNs, over };
  expect(results.isNamed(behind, { ...FILE, ...how, durable })).toBe(isNamed);
});

describe('a result that a death may have closed', () => {
  const KEY = 'r.dat.1';
  const PARTIAL = 'r.dat.1.partial-1';
  const close = (evidence: Close['evidence']): Close => ({ how: 'close', atMs: nowMs, evidence, seq: 1 });
  /** The newest close is the one that is pushed. */
  async function pushed(text: string, evidence: Close['evidence']): Promise<string> {
    content = text;
    mtimeNs = `${BigInt(mtimeNs) + 1n}`;
    const lastClose = close(evidence);
    const sent = await results.push(
      { ...FILE, lastClose, closes: 1 },
      { ...HANDLE, closeOf: () => lastClose },
    );
    return sent.kind;
  }
  const keys = (): readonly string[] => [...store.objects.keys()].toSorted();
  const text = (key: string): string | undefined => store.objects.get(key)?.bytes.toString();
  const settled = (): Promise<void> => results.staged.settled(new AbortController().signal);
  afterEach(() => results.staged.close());

  it('is stored at once beside its name, and gets the name only when the doubt is settled', async () => {
    expect(await pushed('doubtful', 'doubtful')).toBe('stored');
    expect(keys()).toEqual([PARTIAL]);
    expect(partials).toMatchObject([{ key: PARTIAL, suspect: true }]);
    expect(ledgerResults.size).toBe(0);
    expect(results.isNamed({ path: 'r.dat', open: false, size: 8, mtimeNs }, undefined)).toBe(false);
  });

  it('gets its name when the task vouches for it, and an older staged one is deleted after the record', async () => {
    await pushed('older', 'doubtful');
    await pushed('doubtful', 'doubtful');
    expect(keys()).toEqual([PARTIAL, `${PARTIAL}.~1~`]);
    results.staged.vouched('r.dat');
    await settled();
    // Its own staged object has become the named one.
    expect(keys()).toEqual([KEY, PARTIAL]);
    expect(text(KEY)).toBe('doubtful');
    expect(partials).toEqual([]);
    expect(ledgerResults.get('r.dat')?.key).toBe(KEY);
    expect(ledgerResults.get('r.dat')?.suspect).toBeUndefined();
    isRecorded = () => false;
    await results.deleteObsolete();
    expect(keys()).toEqual([KEY, PARTIAL]);
    isRecorded = () => true;
    await results.deleteObsolete();
    expect(keys()).toEqual([KEY]);
  });

  it('does not replace a good one until the doubt is settled', async () => {
    await pushed('good', 'clean');
    await pushed('doubtful', 'doubtful');
    expect(text(KEY)).toBe('good');
    results.staged.ended(() => false);
    await settled();
    expect(text(KEY)).toBe('doubtful');
  });

  it('stays beside its name when the end of the task makes it suspect', async () => {
    await pushed('good', 'clean');
    await pushed('torn', 'doubtful');
    results.staged.ended((_, one) => one?.evidence === 'doubtful');
    await settled();
    expect([text(KEY), text(PARTIAL)]).toEqual(['good', 'torn']);
  });

  it('takes a new key each time, also beside another task’s', async () => {
    store.objects.set(PARTIAL, { bytes: Buffer.from('another task’s'), meta: { push: 'x' } });
    await pushed('a', 'doubtful');
    await pushed('b', 'doubtful');
    expect(keys()).toEqual([PARTIAL, `${PARTIAL}.~1~`, `${PARTIAL}.~2~`]);
    expect([text(PARTIAL), text(`${PARTIAL}.~2~`)]).toEqual(['another task’s', 'b']);
  });

  it('is obsolete, with all older states, when the next close is clean', async () => {
    await pushed('a', 'doubtful');
    await pushed('b', 'doubtful');
    await pushed('c', 'clean');
    expect(text(KEY)).toBe('c');
    expect(results.staged.newest('r.dat')).toBeUndefined();
    await results.deleteObsolete();
    expect(keys()).toEqual([KEY]);
  });

  it('is not sent a second time when it is closed again with the same bytes', async () => {
    await pushed('same', 'doubtful');
    expect(await pushed('same', 'doubtful')).toBe('unchanged');
    expect(keys()).toEqual([PARTIAL]);
    expect(await pushed('same', 'clean')).toBe('unchanged');
    expect(text(KEY)).toBe('same');
  });

  it('is staged if it was read after a later close than the pushed one', async () => {
    content = 'torn';
    const sent = await results.push(
      { ...FILE, lastClose: close('clean'), closes: 1 },
      { ...HANDLE, closeOf: () => close('doubtful') },
    );
    expect(sent.kind).toBe('stored');
    expect(keys()).toEqual([PARTIAL]);
  });

  it('may get its name at once if it was read before the death', async () => {
    content = 'whole';
    await results.push(
      { ...FILE, lastClose: close('clean'), closes: 1 },
      { ...HANDLE, closeOf: () => close('clean') },
    );
    expect(keys()).toEqual([KEY]);
  });

  it('of an earlier attempt gets its name, compressed or not, and leaves no object in the other form', async () => {
    await push(LARGE);
    const [before] = ledgerResults.values();
    const partial = {
      ...(before as StoredFile),
      key: 'r.dat.1.partial-0',
      push: 'p',
      md5: 'm',
      compressed: false,
    };
    store.objects.set(partial.key, { bytes: Buffer.from('newer'), meta: { push: 'p' } });
    expect(await results.nameEarlier(partial, new AbortController().signal)).toBe(KEY);
    expect(text(KEY)).toBe('newer');
    await results.deleteObsolete();
    expect(keys()).not.toContain('r.dat.1.zst');
  });
});
