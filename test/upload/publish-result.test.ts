// What a result replaces: exactly the state that is known, else what a look finds, which is kept if it is another's.
import { randomUUID } from 'node:crypto';
import { beforeEach, expect, it } from 'vitest';
import type { StoredFile } from '../../src/model/format/records.ts';
import { ABSENT, StoreError } from '../../src/store/contract/store.ts';
import type { Store } from '../../src/store/contract/store.ts';
import type { Body, PartIterator } from '../../src/read/reading.ts';
import {
  type Prior,
  promoteResult,
  publishResult,
  type ResultPublisher,
} from '../../src/upload/publish-result.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const KEY = 'r.dat.1';
let store: MemoryStore;
let asked: string[];
beforeEach(() => {
  store = memoryStore();
  asked = [];
});

function bodyOf(text: string): Body {
  const parts = (async function* () {
    yield Buffer.from(text);
  })();
  const facts = { dev: '1', ino: '1', size: text.length, mtimeNs: '1', ctimeNs: '1', mode: 0o644, links: 1 };
  const iterator: PartIterator = Object.assign(parts, { release: () => undefined });
  const proof = { md5: '0'.repeat(32), facts, storedBytes: text.length };
  return {
    kind: 'body',
    facts,
    compressed: false,
    spool: 'unused',
    parts: iterator,
    done: Promise.resolve(proof),
  };
}

/** Publishes this content; returns what became of it, and what the store and the fence were asked. */
async function publish(prior: Prior, text: string, over: Store = store, keptN = 0) {
  asked = [];
  const told: Store = {
    ...over,
    put: (key, body, options) => {
      asked.push(`put ${key} ${options.precondition?.kind}`);
      return over.put(key, body, options);
    },
    head: (key, signal) => {
      asked.push(`head ${key}`);
      return over.head(key, signal);
    },
    copy: (from, to, signal) => {
      asked.push(`copy ${from} ${to}`);
      return over.copy(from, to, signal);
    },
  };
  const publisher = {
    store: told,
    scope: { taskName: 't', index: '1' },
    compression: { kind: 'none' },
    newId: randomUUID,
    attempt: 1,
    runToken: 'ours',
    index: '1',
    workers: { read: async () => bodyOf(text) },
    passFence: async (anew: boolean) => void asked.push(anew ? 'fence anew' : 'fence'),
  } as unknown as ResultPublisher;
  const job = { path: 'r.dat', prior, baseline: undefined, spoolFirst: false, keptN };
  return publishResult(publisher, job);
}

const plant = async (text: string, run: string): Promise<string> => {
  await store.put(KEY, Buffer.from(text), {
    meta: { push: randomUUID(), run },
    precondition: { kind: 'any' },
  });
  return (await store.head(KEY))?.tag ?? '';
};
const text = (key: string): string | undefined => store.objects.get(key)?.bytes.toString();
const ours = (tag: string | undefined): Prior => ({ kind: 'ours', key: KEY, tag });

it('is one put over the state that this process has put there', async () => {
  const first = await publish({ kind: 'unknown' }, 'v1');
  expect(asked).toEqual([`put ${KEY} absent`]);
  if (first.sent.kind !== 'stored') throw new Error(first.sent.kind);
  await publish(ours(first.sent.tag), 'v2');
  expect(asked).toEqual(['fence', `put ${KEY} is`]);
  expect(text(KEY)).toBe('v2');
});

it('of a sidecar that replaces a dead one looks what stands there, and keeps no copy', async () => {
  await plant('v1', 'ours');
  const { kept } = await publish(ours(undefined), 'v2');
  expect(asked).toEqual([`head ${KEY}`, 'fence anew', `put ${KEY} is`]);
  expect(kept).toBeUndefined();
});

it('looks first and asks the fence then: what it finds may be a later attempt’s, which it slept through', async () => {
  const tag = await plant('v1', 'ours');
  await plant('theirs', 'other');
  const { kept } = await publish(ours(tag), 'v2');
  expect(asked.slice(0, 4)).toEqual(['fence', `put ${KEY} is`, `head ${KEY}`, 'fence anew']);
  expect(text(kept?.key ?? '')).toBe('theirs');
  expect(text(KEY)).toBe('v2');
});

it('keeps what a late put has put there between its look and its put, too', async () => {
  await plant('v1', 'earlier');
  let isLate = true;
  const busy: Store = {
    ...store,
    put: async (key, body, options) => {
      if (isLate) await plant('v2', 'earlier');
      isLate = false;
      return store.put(key, body, options);
    },
  };
  const prior: Prior = { kind: 'foreign', key: KEY, push: 'p', compressed: false };
  await publish(prior, 'v3', busy);
  expect([text(`${KEY}.~1~`), text(`${KEY}.~2~`), text(KEY)]).toEqual(['v1', 'v2', 'v3']);
});

it('keeps it under a number that every reader takes, whatever number a record names', async () => {
  await plant('v1', 'earlier');
  const prior: Prior = { kind: 'foreign', key: KEY, push: 'p', compressed: false };
  const { kept } = await publish(prior, 'v2', store, 999_999_999);
  expect(kept).toEqual({ key: `${KEY}.~1~`, n: 1 });
});

it('finds its own put that got no answer and arrived after all, and keeps no copy', async () => {
  const tag = await plant('v1', 'ours');
  await plant('v2', 'ours');
  const { kept } = await publish(ours(tag), 'v3');
  expect(kept).toBeUndefined();
  expect(text(KEY)).toBe('v3');
});

it('finds that what it replaces is gone', async () => {
  const tag = await plant('v1', 'ours');
  await store.delete([KEY]);
  await publish(ours(tag), 'v2');
  expect(asked.at(-1)).toBe(`put ${KEY} absent`);
  expect(text(KEY)).toBe('v2');
});

it('is tried again later if another one comes between each look and put', async () => {
  const tag = await plant('v1', 'ours');
  let puts = 0;
  const busy: Store = {
    ...store,
    put: async () => {
      puts += 1;
      return { kind: 'replaced-meanwhile' };
    },
  };
  await expect(publish(ours(tag), 'v2', busy)).rejects.toMatchObject({
    name: 'StoreError',
    kind: 'transient',
  });
  expect(puts).toBe(5);
});

it('in another form only creates, and names the one that it has left', async () => {
  await plant('v1', 'ours');
  const { obsolete } = await publish({ kind: 'ours', key: `${KEY}.zst`, tag: 'of the other' }, 'v2');
  expect(asked).toContain(`put ${KEY} ${ABSENT.kind}`);
  expect(obsolete).toBe(`${KEY}.zst`);
  expect(text(KEY)).toBe('v2');
});

it('is promoted once, also if the answer of the try that did it was lost', async () => {
  const push = randomUUID();
  const from = `${KEY}.partial-1`;
  await store.put(from, Buffer.from('v1'), { meta: { push }, precondition: ABSENT });
  let tries = 0;
  const deaf: Store = {
    ...store,
    promote: async (...all) => {
      tries += 1;
      const outcome = await store.promote(...all);
      if (tries === 1) throw new StoreError('transient', 'no answer');
      return outcome;
    },
  };
  const publisher = { store: deaf, scope: { taskName: 't', index: '1' } } as unknown as ResultPublisher;
  const job = { path: 'r.dat', prior: { kind: 'unknown' }, keptN: 0 } as const;
  const staged = { path: 'r.dat', key: from, push, compressed: false, md5: '0'.repeat(32) } as StoredFile;
  await expect(promoteResult(publisher, job, staged)).rejects.toMatchObject({ kind: 'transient' });
  const { file, tag } = await promoteResult(publisher, job, staged);
  expect([file.key, tag]).toEqual([KEY, (await store.head(KEY))?.tag]);
  // What stands there by now is another's.
  await plant('v2', 'theirs');
  await expect(promoteResult(publisher, job, staged)).rejects.toMatchObject({ kind: 'missing' });
});
