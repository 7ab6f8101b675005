// What may be taken for "another attempt has taken over", and for "this is not our store any more".
import { beforeEach, describe, expect, it } from 'vitest';
import { type KeyScope, recordKey } from '../../src/model/format/keys.ts';
import { textWithSum } from '../../src/model/format/records.ts';
import { claimAttempt, Fence, FencedError } from '../../src/records/claim.ts';
import { runFields } from '../../src/records/ledger.ts';
import { type Store, StoreError } from '../../src/store/contract/store.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const SCOPE: KeyScope = { taskName: 't', index: '0' };
const keyOf = (attempt: number): string => recordKey(SCOPE, attempt, 0, 'started');

let store: MemoryStore;
let looked: (StoreError | undefined)[];
let fences: number;
beforeEach(() => {
  store = memoryStore();
  looked = [];
  fences = 0;
  claim(3, 'ours');
});

function claim(attempt: number, runToken: string, key = keyOf(attempt)): void {
  const facts = { scope: SCOPE, attempt, runId: undefined, runToken, host: 'h', argv: [], scheduler: {} };
  const at = new Date(0).toISOString();
  const record = { ...runFields({ ...facts, startedAt: at }), kind: 'started', seq: 0, at, push: runToken };
  store.objects.set(key, { bytes: Buffer.from(textWithSum(record)), meta: {} });
}

function open(on: Store = store): Fence {
  return new Fence(
    on,
    { scope: SCOPE, attempt: 3, runToken: 'ours' },
    { onFenced: () => (fences += 1), onLooked: (lost) => looked.push(lost) },
  );
}

describe('the fence', () => {
  it('lets pass while our claim is there and no later one', async () => {
    await open().passAnew();
    expect(looked).toEqual([undefined]);
  });

  it('holds, for ever, when a later attempt has claimed', async () => {
    const fence = open();
    claim(4, 'theirs');
    await expect(fence.pass()).rejects.toThrow(FencedError);
    store.objects.delete(keyOf(4));
    await expect(fence.passAnew()).rejects.toThrow('attempt 4 has taken this index over');
    expect(fences).toBe(1);
  });

  it.each([
    ['empty', () => ''],
    ['a page of HTML', () => '<html></html>'],
    ['cut short', () => store.objects.get(keyOf(3))?.bytes.toString().slice(0, 50) ?? ''],
    ['the record of another key', () => store.objects.get(keyOf(3))?.bytes.toString() ?? ''],
  ])('is not held by an object under the key of the next claim that is %s', async (_, text) => {
    store.objects.set(keyOf(4), { bytes: Buffer.from(text()), meta: {} });
    await open().passAnew();
    expect(fences).toBe(0);
  });

  it('says that the store is lost when our claim is gone, and lets pass when it is back', async () => {
    const fence = open();
    const { bytes, meta } = store.objects.get(keyOf(3)) ?? { bytes: Buffer.alloc(0), meta: {} };
    store.objects.clear();
    await expect(fence.pass()).rejects.toMatchObject({ name: 'StoreError', kind: 'lost' });
    store.objects.set(keyOf(3), { bytes, meta });
    await fence.pass();
    expect(looked.map((lost) => lost?.kind)).toEqual(['lost', undefined]);
  });

  it('takes a damaged claim of ours for ours: it is no proof that the store is another one', async () => {
    store.objects.set(keyOf(3), { bytes: Buffer.from('{'), meta: {} });
    await open().passAnew();
    expect(looked).toEqual([undefined]);
  });

  it('looks again before what cannot be undone, however new the answer before is', async () => {
    const fence = open();
    await fence.pass();
    claim(4, 'theirs');
    await expect(fence.passAnew()).rejects.toThrow(FencedError);
  });

  it('holds when another run has claimed our number in a store that began anew', async () => {
    claim(3, 'theirs');
    await expect(open().passAnew()).rejects.toThrow(FencedError);
  });

  it('does not ask before 5 s have passed since this attempt was known to be the newest', async () => {
    const known = (ageMs: number): Fence =>
      new Fence(
        store,
        { scope: SCOPE, attempt: 3, runToken: 'ours' },
        { onFenced: () => undefined, knownMs: performance.now() - ageMs },
      );
    claim(4, 'theirs');
    await known(4000).pass();
    await expect(known(4000).passAnew()).rejects.toThrow(FencedError);
    await expect(known(5001).pass()).rejects.toThrow(FencedError);
  });

  it('asks for the claims at most once in 5 s, and looks each time at what needs no request', async () => {
    let requests = 0;
    let confirmed = 0;
    const fence = open({
      ...store,
      get: (key) => {
        requests += 1;
        return store.get(key);
      },
      confirm: async () => {
        confirmed += 1;
        if (confirmed > 3) throw new StoreError('lost', 'gone');
      },
    });
    for (let n = 0; n < 3; n += 1) await fence.pass();
    expect(requests).toBe(2);
    await expect(fence.pass()).rejects.toThrow('gone');
    await expect(fence.passAnew()).rejects.toThrow('gone');
    expect(requests).toBe(2);
  });
});

describe('a claim of a number that is taken', () => {
  const listing = { scope: SCOPE, keys: [keyOf(3)], newestAttempt: 3 };
  const claimed = (yields: boolean): Promise<number> =>
    claimAttempt({
      store,
      scope: SCOPE,
      listing,
      unfenced: false,
      yields,
      bodyOf: (attempt) => ({ text: JSON.stringify({ attempt }), push: 'p' }),
    });

  it('takes the next one, or leaves the index to the other attempt', async () => {
    claim(4, 'theirs');
    expect(await claimed(false)).toBe(5);
    store.objects.delete(keyOf(5));
    await expect(claimed(true)).rejects.toMatchObject({ status: 76 });
    expect(store.objects.has(keyOf(5))).toBe(false);
  });

  it('takes the next one if no attempt has taken it', async () => {
    store.objects.set(keyOf(4), { bytes: Buffer.from('<html>'), meta: {} });
    expect(await claimed(true)).toBe(5);
  });
});
