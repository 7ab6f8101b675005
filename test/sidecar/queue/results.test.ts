// A result whose content comes compressed, then too small for it, then compressed again: its object has one of two
// keys, and the one that it has left is deleted once a record names the other.
import { createHash, randomUUID } from 'node:crypto';
import { beforeEach, expect, it } from 'vitest';
import { type FileState, newFileState } from '../../../src/model/file/file-state.ts';
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
  isHeld: () => false,
};
const FILE: FileState = newFileState('r.dat', 'result', false);

let store: MemoryStore;
let results: Results;
let content: string;
/** Each deletion waits for it. */
let mayDelete: Promise<void>;
let deleting: () => void;

beforeEach(() => {
  store = memoryStore();
  mayDelete = Promise.resolve();
  deleting = () => undefined;
  const ledgerResults = new Map<string, StoredFile>();
  const context = {
    attempt: 1,
    now: () => 0,
    log: { debug: () => undefined, warn: () => undefined },
    scope: { taskName: 't', index: '1' },
    paths: new Paths(),
    history: { foreignResults: new Map(), attempts: [] },
    inherited: new Map(),
    baselines: { get: () => undefined, stored: () => undefined },
    manifest: { rolesOf: () => ({ result: true, checkpoint: false, input: false, companion: false }) },
    fence: { pass: async () => undefined, passAnew: async () => undefined },
    ledger: {
      results: ledgerResults,
      keptOf: () => 0,
      isRecorded: () => true,
      noteResult: (file: StoredFile) => ledgerResults.set(file.path, file),
    },
    tidy: {
      delete: async (keys: readonly string[]) => {
        deleting();
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
      workers: { read: async () => bodyOf(content) },
    },
  } as unknown as ConstructorParameters<typeof Results>[0];
  results = new Results(context);
});

function bodyOf(text: string): Body {
  const bytes = new Uint8Array(Buffer.from(text));
  const size = bytes.length;
  const facts = { dev: '1', ino: '1', size, mtimeNs: '1', ctimeNs: '1', mode: 0o644, links: 1 };
  const md5 = createHash('md5').update(bytes).digest('hex');
  const parts = (async function* parts() {
    yield bytes;
  })();
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

it('an object that the result has left is deleted', async () => {
  await push(LARGE);
  await push(SMALL);
  expect([...store.objects.keys()].toSorted()).toEqual(['r.dat.1', 'r.dat.1.zst']);
  await results.deleteObsolete();
  expect([...store.objects.keys()]).toEqual(['r.dat.1']);
});

it('content that comes back to a key while that is deleted is pushed after it', async () => {
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

it('nothing of a result is deleted while it is pushed', async () => {
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
