// What a start reads of earlier attempts: the newest whole record of each, few at a time, in the order of the attempts.
import v8 from 'node:v8';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { firstNumber } from '../../src/model/checkpoint/takeovers.ts';
import { type KeyScope, recordKey } from '../../src/model/format/keys.ts';
import { textWithSum } from '../../src/model/format/records.ts';
import { runFields } from '../../src/records/ledger.ts';
import { listRecords } from '../../src/records/list.ts';
import { type ReadRecords, readNewest } from '../../src/records/read.ts';
import type { Store } from '../../src/store/contract/store.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const SCOPE: KeyScope = { taskName: 't', index: '0' };
/** As many preemptions as a bad day has. */
const ATTEMPTS = 20;

let disk: MemoryStore;
beforeEach(async () => {
  disk = memoryStore();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    await record(attempt, 0, 'started');
    await record(attempt, 1, 'started');
    await record(attempt, 2, 'stored');
  }
});

async function record(
  attempt: number,
  seq: number,
  kind: 'started' | 'stored',
  extra: object = {},
  scope = SCOPE,
): Promise<void> {
  const at = new Date(0).toISOString();
  const facts = {
    scope: SCOPE,
    attempt,
    runId: undefined,
    runToken: 'r',
    host: 'h',
    argv: [],
    scheduler: {},
  };
  const push = `${attempt}-${seq}`;
  const text = textWithSum({ ...runFields({ ...facts, startedAt: at }), kind, seq, at, push, ...extra });
  await disk.put(recordKey(scope, attempt, seq, kind), Buffer.from(text), { meta: { push } });
}

function damage(attempt: number, seq: number, kind: 'started' | 'stored'): void {
  const key = recordKey(SCOPE, attempt, seq, kind);
  const object = disk.objects.get(key);
  if (object !== undefined) object.bytes.write('X', 10);
}

interface Counted {
  readonly read: ReadRecords;
  readonly keys: readonly string[];
  /** What was asked at once, for each round trip. */
  readonly rounds: readonly number[];
}

/** All that is asked until the process has nothing left to do is answered together: one round trip. */
async function readCounted(): Promise<Counted> {
  const keys: string[] = [];
  const rounds: number[] = [];
  let asked: (() => void)[] = [];
  const answer = (): void => {
    rounds.push(asked.length);
    for (const one of asked.splice(0)) one();
  };
  const store: Store = {
    ...disk,
    get: async (key, options) => {
      keys.push(key);
      await new Promise<void>((resolve) => {
        if (asked.length === 0) setImmediate(answer);
        asked = [...asked, resolve];
      });
      return disk.get(key, options);
    },
  };
  return { read: await readNewest(store, await listRecords(disk, SCOPE)), keys, rounds };
}

describe('readNewest', () => {
  it('asks for one record of each attempt, in a few round trips', async () => {
    const { read, keys, rounds } = await readCounted();
    expect(keys).toHaveLength(ATTEMPTS);
    expect(rounds.length).toBeLessThanOrEqual(3);
    expect(Math.max(...rounds)).toBeLessThanOrEqual(8);
    expect(read.records.map((one) => [one.record.attempt, one.record.seq])).toEqual(
      Array.from({ length: ATTEMPTS }, (_, n) => [n + 1, 2]),
    );
  });

  it('has room for the newest attempts before the older ones', async () => {
    const left = Array.from({ length: 2000 }, (_, n) => ({ path: `f${n}`, why: 'x' }));
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) await record(attempt, 3, 'stored', { left });
    const { heap_size_limit: _, ...others } = v8.getHeapStatistics();
    const spy = vi.spyOn(v8, 'getHeapStatistics');
    onTestFinished(() => spy.mockRestore());
    // For the values of three records.
    spy.mockReturnValue({ ...others, heap_size_limit: 2 * 40 * 3 * 10_500 });
    const { read } = await readCounted();
    const whole = read.records
      .filter(({ record: one }) => one.seq === 3)
      .map(({ record: one }) => one.attempt);
    expect(whole).toEqual([18, 19, 20]);
    expect(read.problems.length).toBeGreaterThan(0);
  });

  it('takes the one before it where the newest is damaged, and tells of each in the order of attempts', async () => {
    damage(20, 2, 'stored');
    damage(3, 2, 'stored');
    damage(3, 1, 'started');
    for (const seq of [0, 1]) damage(7, seq, 'started');
    damage(7, 2, 'stored');
    const { read } = await readCounted();
    expect(read.records.map(({ record }) => record.attempt)).not.toContain(7);
    const seqOf = (attempt: number): number | undefined =>
      read.records.find((one) => one.record.attempt === attempt)?.record.seq;
    expect([seqOf(3), seqOf(4), seqOf(20)]).toEqual([0, 2, 1]);
    // Of attempt 3 only its claim is left, and that tells of nothing that was stored.
    expect(read.unreadable).toEqual([3, 7]);
    expect(read.problems.map((problem) => /000\d|002\d/.exec(problem)?.[0])).toEqual([
      '0003',
      '0003',
      '0007',
      '0007',
      '0007',
      '0020',
    ]);
  });
});

describe('of a sidecar that was replaced', () => {
  const set = (generation: number): object => ({
    attempt: 20,
    generation,
    at: new Date(0).toISOString(),
    members: [],
  });

  const namesIn = ({ records }: ReadRecords): readonly number[] =>
    records.at(-1)?.record.generations.map(({ generation }) => generation) ?? [];
  const FIRST = { seq: firstNumber(2, true), generation: firstNumber(2, true) };

  it('a record that arrived later tells of sets that its successor has never heard of', async () => {
    await record(20, 2, 'stored', { generations: [set(2), set(1)] });
    await record(20, 3, 'stored', { generations: [set(4), set(3), set(2), set(1)] });
    const generations = [set(FIRST.generation), set(2)];
    await record(20, FIRST.seq + 1, 'stored', { takeovers: [FIRST], generations });
    const { read, keys } = await readCounted();
    expect(namesIn(read)).toEqual([FIRST.generation, 4, 3, 2]);
    // What its successor knew is not read.
    expect(keys).toHaveLength(ATTEMPTS + 1);
  });

  it.each(['late', 'newest'])(
    'few %s records are read, however many somebody has put there',
    async (which) => {
      const from = which === 'late' ? 3 : FIRST.seq + 1;
      for (let seq = from; seq < from + 100; seq += 1)
        await disk.put(recordKey(SCOPE, 20, seq, 'stored'), Buffer.from(''), { meta: {} });
      await record(20, FIRST.seq, 'stored', { takeovers: [FIRST] });
      const { read, keys } = await readCounted();
      expect(read.records.map((one) => one.record.seq)).toContain(which === 'late' ? FIRST.seq : 2);
      expect(read.unreadable).toEqual(which === 'late' ? [] : [20]);
      expect(keys.length).toBeLessThanOrEqual(ATTEMPTS + 20);
    },
  );

  it('no set comes back that a successor knows better, or has deleted', async () => {
    await record(20, 3, 'stored', { generations: [set(4), set(3)] });
    const generations = [{ ...set(3), suspect: true }];
    await record(20, FIRST.seq, 'stored', { takeovers: [FIRST], generations, dropped: ['20-4'] });
    const { read } = await readCounted();
    expect(read.records.at(-1)?.record.generations).toMatchObject([{ generation: 3, suspect: true }]);
  });
});

describe('a list segment', () => {
  const key = recordKey(SCOPE, 20, 3, 'list');
  const entry = (path: string, own: string): object => {
    const facts = { push: 'p', attempt: 1, md5: '0'.repeat(32), size: 1, mtimeNs: '0', mode: 0o600 };
    return { ...facts, path, key: own, compressed: false };
  };

  async function resultsOf(entries: readonly object[]): Promise<[readonly string[], ReadRecords]> {
    await disk.put(key, Buffer.from(textWithSum({ format: 1, results: entries })), { meta: {} });
    await record(20, 4, 'stored', { segments: [key] });
    const read = await readNewest(disk, await listRecords(disk, SCOPE));
    return [[...(read.records.at(-1)?.results ?? [])].map((file) => file.key), read];
  }

  it('is used if all its keys are of its index', async () => {
    const [keys, read] = await resultsOf([entry('a', 'a.0'), entry('b', 'b.0')]);
    expect(keys).toEqual(['a.0', 'b.0']);
    expect(read.problems).toEqual([]);
  });

  it('is not used if one of them is not, and a warning names both', async () => {
    const [keys, read] = await resultsOf([entry('a', 'a.0'), entry('b', 'b.9')]);
    expect(keys).toEqual([]);
    expect(read.problems).toEqual([
      `list ${key} cannot be used (it names b.9, which no attempt of task t, index 0 can have stored): its results are pushed again when they come`,
    ]);
  });
});

it('a record of what is called as if it stood below an index is none of that index', async () => {
  const below: KeyScope = { taskName: 't', index: '0/x' };
  await record(21, 1, 'stored', { index: below.index }, below);
  const read = await readNewest(disk, await listRecords(disk, SCOPE));
  expect(read.records.map((one) => one.record.attempt)).not.toContain(21);
  expect(read.problems).toHaveLength(1);
});
