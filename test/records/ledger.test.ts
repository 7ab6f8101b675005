import { beforeEach, describe, expect, it } from 'vitest';
import {
  type Behind,
  type CaptureRecord,
  type Generation,
  parseRecord,
  type StoredFile,
} from '../../src/model/format/records.ts';
import { type History, unionOf } from '../../src/model/checkpoint/history.ts';
import { newDeferred } from '../../src/model/waiting.ts';
import { Baselines, Ledger, type LedgerOptions } from '../../src/records/ledger.ts';
import { memoryStore, type MemoryStore } from '../support/memory-store.ts';

const FILE = { kind: 'file', mode: 0o644 } as const;
const results = new Map<string, StoredFile>();
let baselines: Baselines;
beforeEach(() => {
  results.clear();
  results.set('r', { path: 'r', md5: 'stored', size: 1 } as StoredFile);
  baselines = new Baselines({ results });
});

describe('a baseline', () => {
  it('is what is stored, and with the next push what that stored', () => {
    expect(baselines.get('r', false)).toMatchObject({ md5: 'stored', size: 1 });
    results.set('r', { path: 'r', md5: 'newer', size: 2 } as StoredFile);
    expect(baselines.get('r', false)).toMatchObject({ md5: 'newer', size: 2 });
  });

  it('is the input that was staged, until the task closes it or it is stored', () => {
    baselines.set('r', { ...FILE, md5: 'staged', size: 3 });
    expect(baselines.get('r', false)?.md5).toBe('staged');
    expect(baselines.get('r', true)?.md5).toBe('stored');
    baselines.stored('r');
    expect(baselines.get('r', false)?.md5).toBe('stored');
  });

  it('is none when what stands in the store was replaced, until it is stored again', () => {
    baselines.delete('r');
    expect([baselines.get('r', false), baselines.get('r', true)]).toEqual([undefined, undefined]);
    expect([...baselines.inputs(() => true)]).toEqual([]);
    baselines.stored('r');
    expect(baselines.get('r', false)?.md5).toBe('stored');
  });

  it('of an input is handed on, of a mere result it is not', () => {
    results.set('both', { ...FILE, path: 'both', md5: 'x', size: 4 } as StoredFile);
    baselines.set('staged', { ...FILE, md5: 'y', size: 5 });
    expect([...baselines.inputs((path) => path === 'both')]).toEqual([
      ['staged', { ...FILE, md5: 'y', size: 5 }],
      ['both', { ...FILE, md5: 'x', size: 4 }],
    ]);
  });
});

let store: MemoryStore;
/** Awaited by each record before it is there. */
let mayPut: Promise<void>;
beforeEach(() => {
  store = memoryStore();
  mayPut = Promise.resolve();
});

function open(history: Partial<History> = {}): Ledger {
  const options = {
    store: {
      ...store,
      put: async (...put: Parameters<MemoryStore['put']>) => {
        await mayPut;
        return store.put(...put);
      },
    },
    fence: { pass: async () => undefined, passAnew: async () => undefined },
    facts: {
      scope: { taskName: 't', index: '0' },
      attempt: 2,
      runId: undefined,
      runToken: 'token',
      host: 'host',
      argv: [],
      scheduler: {},
      startedAt: new Date(0).toISOString(),
    },
    history: {
      results: new Map(),
      kept: new Map(),
      generations: [],
      partials: [],
      dropped: [],
      ...history,
    },
    base: undefined,
    takeovers: [],
    newId: () => 'id',
    tidy: { delete: async () => true },
  };
  return new Ledger(options as unknown as LedgerOptions, 1);
}
const last = (): CaptureRecord => {
  const [record] = [...store.objects].toSorted(([a], [b]) => (a < b ? 1 : -1)).map(([, { bytes }]) => bytes);
  return JSON.parse(record?.toString() ?? '') as CaptureRecord;
};

const file = (push: string, facts: Partial<StoredFile> = {}): StoredFile => ({
  path: 'r',
  kind: 'file',
  key: `r.0.partial-2.${push}`,
  push,
  attempt: 2,
  md5: '0'.repeat(32),
  size: 1,
  compressed: false,
  mtimeNs: '1',
  mode: 0o644,
  suspect: true,
  ...facts,
});

describe('an object beside a result’s name', () => {
  const NAMED = { key: 'r.0', suspect: undefined };

  it('is named by the next record, with each state of the result', async () => {
    const ledger = open();
    ledger.notePartial(file('a'));
    ledger.notePartial(file('b'));
    expect(ledger.isRecorded(file('b'))).toBe(false);
    await ledger.write('stored');
    expect(last().partials.map(({ push }) => push)).toEqual(['a', 'b']);
    expect(ledger.isRecorded(file('b'))).toBe(true);
  });

  it('that has got its name, and what is older, is named by no later record', async () => {
    const ledger = open();
    for (const push of ['a', 'b', 'c']) ledger.notePartial(file(push));
    expect(ledger.dropPartials('r', file('b')).map(({ push }) => push)).toEqual(['a', 'b']);
    ledger.noteResult(file('b', NAMED));
    await ledger.write('stored');
    expect(last().partials.map(({ push }) => push)).toEqual(['c']);
    expect(last().results.map(({ key }) => key)).toEqual(['r.0']);
    expect(ledger.dropPartials('r').map(({ push }) => push)).toEqual(['c']);
    expect(ledger.partialsOf('r')).toEqual([]);
  });

  it('is not recorded under its name by a record that was under way when it got that', async () => {
    const ledger = open();
    ledger.notePartial(file('a'));
    const may = newDeferred<void>();
    mayPut = may.promise;
    const written = ledger.write('stored');
    await new Promise(setImmediate);
    ledger.dropPartials('r', file('a'));
    ledger.noteResult(file('a', NAMED));
    may.resolve();
    await written;
    expect(last()).toMatchObject({ partials: [{ push: 'a' }], results: [] });
    expect(ledger.isRecorded(file('a', NAMED))).toBe(false);
    expect(ledger.unrecordedCount).toBe(1);
    await ledger.write('stored');
    expect(last()).toMatchObject({ partials: [], results: [{ key: 'r.0' }] });
    expect(ledger.isRecorded(file('a', NAMED))).toBe(true);
  });

  it('that had the result’s name before takes it away, and another one does not', async () => {
    const ledger = open();
    ledger.noteResult(file('a', NAMED));
    ledger.notePartial(file('b'));
    expect(ledger.results.get('r')?.push).toBe('a');
    ledger.notePartial(file('a'));
    expect(ledger.results.get('r')).toBeUndefined();
    await ledger.write('stored');
    expect(last().results).toEqual([]);
  });

  it('is suspect until the end of the task found nothing against it', async () => {
    const ledger = open();
    ledger.notePartial(file('a'));
    ledger.notePartial(file('b'));
    ledger.clearPartial(file('a'));
    await ledger.write('stored');
    expect(last().partials.map(({ suspect = false }) => suspect)).toEqual([false, true]);
  });

  it('of a dead sidecar of the same attempt is still named, and of an earlier attempt it is not', async () => {
    const ledger = open({ partials: [file('old', { attempt: 1 }), file('a')] });
    await ledger.write('stored');
    expect(last().partials.map(({ push }) => push)).toEqual(['a']);
  });

  it('that has its name by now is no longer what a set is ahead of', async () => {
    const behind = (path: string): Behind => ({ path, open: false, size: 1, mtimeNs: '1' });
    const set = (attempt: number): Generation => ({
      attempt,
      generation: 1,
      at: new Date(0).toISOString(),
      members: [],
      companions: [],
      behind: ['r', 's'].map(behind),
    });
    const ledger = open();
    ledger.setGenerations([set(2), set(1)]);
    await ledger.write('stored');
    ledger.isNamed = ({ path }) => path === 'r';
    await ledger.write('stored');
    expect(last().generations.map((one) => one.behind?.map(({ path }) => path))).toEqual([['s'], ['r', 's']]);
  });
});

it('no record comes after a last one but another last one, even if it is unknown whether the first is there', async () => {
  const ledger = open();
  mayPut = Promise.reject(new Error('no answer'));
  await expect(ledger.write('ended')).rejects.toThrow('no answer');
  mayPut = Promise.resolve();
  await expect(ledger.write('stored')).rejects.toThrow('no stored after it');
  await ledger.write('ended');
  expect(last().kind).toBe('ended');
});

describe('a set of an earlier attempt', () => {
  const set = (attempt: number, generation: number): Generation => ({
    attempt,
    generation,
    at: new Date(0).toISOString(),
    members: [],
    companions: [],
  });
  const namesAfter = (...records: readonly Partial<CaptureRecord>[]): readonly string[] =>
    unionOf(
      records.map((record) => ({ record: { ...last(), ...record }, results: [] })),
      undefined,
    ).generations.map((one) => `${one.attempt}-${one.generation}`);

  it('that is deleted is named by each later record, and no newest record of the earlier one revives it', async () => {
    const ledger = open({ generations: [set(1, 2), set(1, 1)] });
    ledger.setGenerations([set(2, 1), set(1, 2)]);
    await ledger.write('stored');
    expect(last().dropped).toEqual(['1-1']);
    ledger.setGenerations([set(2, 2), set(2, 1)]);
    await ledger.write('stored');
    expect(last().dropped).toEqual(['1-2', '1-1']);
    const earlier = { attempt: 1, dropped: undefined };
    expect(namesAfter({ ...earlier, generations: [set(1, 2), set(1, 1)] }, {})).toEqual(['2-2', '2-1']);
    // Committed after this attempt had read.
    const zombie = { ...earlier, generations: [set(1, 3), set(1, 2)] };
    expect(namesAfter(zombie, {})).toEqual(['2-2', '2-1', '1-3']);
  });

  it('that an attempt before this one, or a dead sidecar of this one, knew is named once it is deleted', async () => {
    const ledger = open({ generations: [set(2, 2), set(2, 1), set(1, 4)], dropped: ['1-3'] });
    ledger.setGenerations([set(2, 1004), set(2, 2), set(1, 4)]);
    await ledger.write('stored');
    expect(last().dropped).toEqual(['1-3', '2-1']);
    // What this sidecar has made itself no other record names.
    ledger.setGenerations([set(2, 1005), set(2, 2), set(1, 4)]);
    await ledger.write('stored');
    expect(last().dropped).toEqual(['1-3', '2-1']);
  });

  it('is named as deleted by no record while all are kept', async () => {
    const ledger = open({ generations: [set(1, 1)] });
    await ledger.write('stored');
    expect(last().dropped).toBeUndefined();
  });
});

describe('a record that would be too large to be read', () => {
  const member = (n: number): StoredFile => file('push', { path: `${'d'.repeat(300)}/${n}.chk` });
  const setOf = (files: number): Generation => ({
    attempt: 2,
    generation: 1,
    at: new Date(0).toISOString(),
    members: Array.from({ length: files }, (_, n) => member(n)),
    companions: [],
  });

  it('is not written, and the reason is told', async () => {
    const ledger = open();
    ledger.setGenerations([setOf(40_000)]);
    await expect(ledger.write('checkpoint')).rejects.toMatchObject({
      status: 74,
      message: expect.stringContaining('40000 files'),
      hint: expect.stringContaining('--newest'),
    });
    expect(store.objects.size).toBe(0);
    // The next number is free.
    ledger.setGenerations([setOf(1000)]);
    await ledger.write('checkpoint');
    expect(parseRecord(textOf(store))).toMatchObject({ seq: 1 });
  });

  it('names fewer of the files that are missing, and of the partial results', async () => {
    const ledger = open();
    for (let n = 0; n < 40_000; n += 1) ledger.notePartial(member(n));
    const left = Array.from({ length: 40_000 }, (_, n) => ({ path: member(n).path, why: 'not stored' }));
    await ledger.write('preempted', { left });
    const record = parseRecord(textOf(store));
    expect(record).toMatchObject({ kind: 'preempted' });
    if ('invalid' in record) return;
    expect(record.left.length).toBe(10_000);
    expect(record.partials.at(-1)?.path).toBe(member(39_999).path);
  });

  it('names as many as it has room for, however long their paths are', async () => {
    const left = Array.from({ length: 40_000 }, (_, n) => ({
      path: `${'d/'.repeat(2000)}${n}`,
      why: 'deep',
    }));
    await open().write('preempted', { left });
    expect(parseRecord(textOf(store))).toMatchObject({ kind: 'preempted', left: left.slice(0, 1000) });
  });

  it('names the deepest directory that fits for what is deeper, once', async () => {
    const parent = Array.from({ length: 20 }, () => 'd'.repeat(200)).join('/');
    const below = (name: string): string => `${parent}/${'e'.repeat(200)}/${'f'.repeat(200)}/${name}`;
    const left = [
      { path: below('a'), why: 'deep' },
      { path: 'r', why: 'open' },
      { path: below('b'), why: 'deep' },
      { path: 'r', why: 'again' },
    ];
    await open().write('failed', { left });
    expect(parseRecord(textOf(store))).toMatchObject({
      left: [
        { path: `${parent}/${'e'.repeat(200)}`, why: 'deep' },
        { path: 'r', why: 'open' },
        { path: 'r', why: 'again' },
      ],
    });
  });

  it.each([2 ** 53, 8_070_450_532_247_928_832, 2 ** 63])(
    'holds a file of %i bytes, as the kernel has it',
    async (size) => {
      const ledger = open();
      ledger.setGenerations([{ ...setOf(1), behind: [{ path: 'r', open: true, size, mtimeNs: '1' }] }]);
      await ledger.write('checkpoint');
      expect(parseRecord(textOf(store))).toMatchObject({ generations: [{ behind: [{ size }] }] });
    },
  );
});

it('a record with a number that no capture reads is not written, wherever the number came from', async () => {
  const ledger = open({ kept: new Map([['r', 999_999_999]]) });
  ledger.noteKept('r', 1_000_000_000);
  await expect(ledger.write('stored')).rejects.toMatchObject({
    status: 74,
    message: expect.stringContaining('kept.r'),
  });
  expect(store.objects.size).toBe(0);
});

function textOf({ objects }: MemoryStore): string {
  return [...objects.values()].at(-1)?.bytes.toString() ?? '';
}

describe('of results that cannot stand beside each other', () => {
  const at = (path: string, push = path): StoredFile => file(push, { path, key: `${path}.0` });
  const read = (): History => unionOf([{ record: last(), results: last().results }], undefined);

  it('the newest is current, and the record names all in their order, so that a reader finds the same', async () => {
    const ledger = open({ results: new Map([['y/a', at('y/a')]]) });
    expect(ledger.noteResult(at('x'))).toEqual([]);
    expect(ledger.noteResult(at('x/a/b'))).toEqual([at('x')]);
    expect(ledger.noteResult(at('x.d/a'))).toEqual([]);
    expect(ledger.noteResult(at('y'))).toEqual([at('y/a')]);
    expect([...ledger.results.keys()].toSorted()).toEqual(['x.d/a', 'x/a/b', 'y']);
    await ledger.write('stored');
    expect([...read().results.keys()].toSorted()).toEqual(['x.d/a', 'x/a/b', 'y']);
    expect(ledger.noteResult(at('x', 'again'))).toEqual([at('x/a/b')]);
    await ledger.write('stored');
    expect([...read().results.keys()].toSorted()).toEqual(['x', 'x.d/a', 'y']);
    expect(
      read()
        .replaced.map(({ path }) => path)
        .toSorted(),
    ).toEqual(['x/a/b', 'y/a']);
  });

  it('one that is only found in the store replaces none', () => {
    const ledger = open({ results: new Map([['x/a', at('x/a')]]) });
    for (const path of ['x', 'x/a/b', 'z']) ledger.noteFound(at(path));
    expect([...ledger.results.keys()].toSorted()).toEqual(['x/a', 'z']);
    expect(['x', 'x/a/b', 'x/b', 'x/a', 'z/a'].map((path) => ledger.clashes(path))).toEqual([
      true,
      true,
      false,
      false,
      true,
    ]);
  });
});
