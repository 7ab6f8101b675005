// A listing that lags behind what is stored, and one that never shows it.
import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { type KeyScope, recordKey, recordPrefix } from '../../src/model/format/keys.ts';
import { textWithSum } from '../../src/model/format/records.ts';
import { claimAttempt } from '../../src/records/claim.ts';
import { listRecords } from '../../src/records/list.ts';
import { runFields } from '../../src/records/ledger.ts';
import { listWithClaim } from '../../src/records/list.ts';
import type { ListedObject, Store } from '../../src/store/contract/store.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const SCOPE: KeyScope = { taskName: 't', index: '0' };

let disk: MemoryStore;
let listings: number;
beforeEach(() => {
  disk = memoryStore();
  listings = 0;
});

/** The first `stale` listings hide the keys for which `hides` is true. */
function lagging(stale: number, hides: (key: string) => boolean = () => true): Store {
  return {
    ...disk,
    list: async function* list(prefix): AsyncGenerator<ListedObject> {
      listings += 1;
      const isStale = listings <= stale;
      for await (const one of disk.list(prefix)) if (!(isStale && hides(one.key))) yield one;
    },
  };
}

function claimOf(attempt: number): { readonly text: string; readonly push: string } {
  const at = new Date(0).toISOString();
  const facts = { scope: SCOPE, attempt, runId: undefined, host: 'h', argv: [], scheduler: {} };
  const push = randomUUID();
  const own = runFields({ ...facts, runToken: push, startedAt: at });
  return { text: textWithSum({ ...own, kind: 'started', seq: 0, at, push }), push };
}

async function claim(store: Store, staleMs?: number): Promise<number> {
  const listing = await listRecords(store, SCOPE);
  return claimAttempt({ store, scope: SCOPE, listing, bodyOf: claimOf, unfenced: false, staleMs });
}

describe('a claim that collides with an attempt which the listing does not show', () => {
  it('waits until the listing shows it', async () => {
    expect(await claim(disk)).toBe(1);
    expect(await claim(lagging(3))).toBe(2);
    expect(listings).toBe(4);
  });

  it('is status 69 when the listing never does, and claims nothing', async () => {
    await claim(disk);
    const before = [...disk.objects.keys()];
    const outcome = claim(lagging(Infinity), 50);
    await expect(outcome).rejects.toMatchObject({ status: 69 });
    await expect(outcome).rejects.toThrow(/does not show \.capture\/t\/0\/0001-000000\.started\.json/);
    expect([...disk.objects.keys()]).toEqual(before);
  });

  it('is only a lost race when the listing shows it at once', async () => {
    await claim(disk);
    expect(await claim(lagging(1))).toBe(2);
    expect(listings).toBe(2);
  });

  it('is lost also where the store took two claims at once, and refuses the next', async () => {
    const key = recordKey(SCOPE, 1, 0, 'started');
    const looksThenWrites: Store = {
      ...disk,
      createsAtomically: false,
      put: async (to, body, options) => {
        const outcome = await disk.put(to, body, options);
        if (to === key && outcome.kind === 'stored')
          disk.objects.set(key, { bytes: Buffer.from(claimOf(1).text), meta: { push: 'theirs' } });
        return outcome;
      },
    };
    expect(await claim(looksThenWrites)).toBe(2);
  });

  it('goes on behind an object that is no record', async () => {
    const key = recordKey(SCOPE, 1, 0, 'started');
    disk.objects.set(key, { bytes: Buffer.from('<html>'), meta: {} });
    expect(await claim(lagging(2))).toBe(2);
  });
});

it.each(['checkpoint', 'list'])(
  'A listing that lagged is waited for until it shows the newest record, a %s, by its name',
  async (newest) => {
    await claim(disk);
    for (const [seq, kind] of [
      [1, 'started'],
      [2, newest],
    ] as const) {
      disk.objects.set(recordKey(SCOPE, 1, seq, kind), { bytes: Buffer.from('{}'), meta: {} });
    }
    const store = lagging(2, (key) => listings === 1 || key.includes('000002'));
    const { keys } = await listWithClaim(store, SCOPE, 1);
    expect(keys).toHaveLength(3);
    expect(listings).toBe(3);
  },
);

it.each([
  ['records', (seq: number) => recordKey(SCOPE, 1 + Math.floor(seq / 1e5), seq % 1e5, 'stored')],
  ['names that are no records', (seq: number) => `${recordPrefix(SCOPE)}${String(seq).padStart(9, '0')}`],
])('more %s than any run writes are status 69', async (_, keyOf) => {
  const endless: Store = {
    ...disk,
    list: async function* list(): AsyncGenerator<ListedObject> {
      for (let seq = 0; ; seq += 1) yield { key: keyOf(seq), sizeBytes: 1, modifiedMs: 0, md5: undefined };
    },
  };
  await expect(listRecords(endless, SCOPE)).rejects.toMatchObject({ status: 69 });
});
