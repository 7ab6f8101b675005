import { describe, expect, it } from 'vitest';
import { unionOf, type AttemptEnd, type WholeRecord } from '../../../src/model/checkpoint/history.ts';
import type { CaptureRecord, Generation, StoredFile } from '../../../src/model/format/records.ts';
import { afterFailures, restoreOrder } from '../../../src/model/checkpoint/restore-order.ts';
import { keptGenerations, droppedKeys, prunableRecords } from '../../../src/model/checkpoint/retention.ts';

const file = (path: string, attempt: number, push = `${path}-${attempt}`): StoredFile => ({
  path,
  kind: 'file',
  key: `${path}.0`,
  push,
  attempt,
  md5: '0'.repeat(32),
  size: 1,
  compressed: false,
  mtimeNs: '0',
  mode: 0o644,
});

const generation = (attempt: number, number: number, marks: Partial<Generation> = {}): Generation => ({
  attempt,
  generation: number,
  at: '2026-01-01T00:00:00.000Z',
  members: [{ ...file('k', attempt), key: `k.${attempt}-${number}` }],
  companions: [],
  ...marks,
});

function record(attempt: number, parts: Partial<CaptureRecord>): WholeRecord {
  const whole: CaptureRecord = {
    format: 1,
    kind: 'stored',
    push: 'p',
    capture: '0',
    attempt,
    seq: 1,
    at: '2026-01-01T00:00:00.000Z',
    task: 't',
    index: '0',
    runToken: 'x',
    host: 'h',
    argv: [],
    scheduler: {},
    startedAt: '2026-01-01T00:00:00.000Z',
    segments: [],
    results: [],
    partials: [],
    kept: {},
    generations: [],
    left: [],
    ...parts,
  };
  return { record: whole, results: whole.results };
}

const namesOf = (generations: readonly Generation[]): readonly string[] =>
  generations.map((one) => `${one.attempt}-${one.generation}`);

describe('the union of earlier attempts', () => {
  it('takes the newest entry of each path', () => {
    const { results } = unionOf(
      [record(1, { results: [file('a', 1), file('b', 1)] }), record(2, { results: [file('a', 2)] })],
      undefined,
    );
    expect([...results.values()].map(({ path, attempt }) => `${path}${attempt}`)).toEqual(['a2', 'b1']);
  });

  it.each<[string, readonly (readonly StoredFile[])[], readonly string[]]>([
    ['a file became a directory', [[file('x', 1), file('x/a', 1), file('y', 1), file('x/b/c', 1)]], ['x']],
    ['a directory became a file', [[file('x/a', 1), file('x/b/c', 1), file('x', 1)]], ['x/a', 'x/b/c']],
    ['it did so in a later attempt', [[file('x/a', 1)], [file('x/a', 1), file('x', 2)]], ['x/a']],
    [
      'a later record repeats it last',
      [
        [file('x', 1), file('x/a', 1)],
        [file('x/a', 1), file('x', 1)],
      ],
      ['x'],
    ],
    [
      'it was a file again',
      [
        [file('x', 1), file('x/a', 1)],
        [file('x', 1), file('x/a', 1), file('x', 2)],
      ],
      ['x/a'],
    ],
    ['only the names begin alike', [[file('x', 1), file('xy/a', 1), file('x.d/a', 1)]], []],
  ])('keeps the newer of two results that cannot stand beside each other: %s', (_, lists, expected) => {
    const all = lists.flat().map(({ path }) => path);
    const { results, replaced } = unionOf(
      lists.map((list, at) => record(at + 1, { results: [...list] })),
      undefined,
    );
    expect(replaced.map(({ path }) => path).toSorted()).toEqual(expected);
    expect([...results.keys()].toSorted()).toEqual(
      [...new Set(all)].filter((path) => !expected.includes(path)).toSorted(),
    );
  });

  it('restores nothing of another run id, and still knows its results', () => {
    const other = record(1, { runId: 'old', results: [file('a', 1)], generations: [generation(1, 1)] });
    const history = unionOf([other], 'new');
    expect(history.results.size).toBe(0);
    expect(history.generations).toEqual([]);
    expect(history.foreignResults.has('a')).toBe(true);
  });

  it('forgets the sets that a later record says are deleted, of its own run alone', () => {
    const before = record(1, { generations: [generation(1, 2), generation(1, 1)] });
    const other = record(2, { runId: 'other', generations: [], pruned: true });
    const pruned = record(3, { generations: [generation(1, 2)], pruned: true });
    const after = record(4, { generations: [generation(4, 1)] });
    expect(namesOf(unionOf([before, other], undefined).generations)).toEqual(['1-2', '1-1']);
    expect(namesOf(unionOf([before, other, pruned], undefined).generations)).toEqual(['1-2']);
    expect(namesOf(unionOf([before, pruned, after], undefined).generations)).toEqual(['4-1', '1-2']);
  });

  it('does not revive a set that a later attempt has deleted, and keeps what was committed after that had read', () => {
    // The last set of the first attempt is of a process that went on after the second one had begun.
    const earlier = record(1, { generations: [generation(1, 3), generation(1, 2), generation(1, 1)] });
    const later = record(2, { generations: [generation(2, 1), generation(1, 2)], dropped: ['1-1'] });
    const { generations, dropped } = unionOf([earlier, later], undefined);
    expect(namesOf(generations)).toEqual(['2-1', '1-3', '1-2']);
    expect(dropped).toEqual(['1-1']);
  });

  it('names a deleted set as long as a record names it, and believes only its own run', () => {
    const earlier = record(1, { generations: [generation(1, 2)] });
    const other = record(2, { runId: 'other', dropped: ['1-2'] });
    const later = record(3, { generations: [generation(1, 2)], dropped: ['1-1'] });
    const { generations, dropped } = unionOf([earlier, other, later], undefined);
    expect(namesOf(generations)).toEqual(['1-2']);
    expect(dropped).toEqual([]);
  });

  it('begins anew after a record that says that all before it is removed, of any run', () => {
    const before = record(1, { results: [file('a', 1)], generations: [generation(1, 1)], kept: { a: 2 } });
    const other = record(2, { runId: 'other', results: [file('b', 2)], generations: [generation(2, 1)] });
    const removed = record(3, { removed: true });
    const after = record(4, { results: [file('c', 4)] });
    const history = unionOf([before, other, removed, after], undefined);
    expect([...history.results.keys()]).toEqual(['c']);
    expect([history.foreignResults.size, history.kept.size, history.foreignCheckpoints]).toEqual([0, 0, 0]);
    expect(history.generations).toEqual([]);
    expect(history.attempts.map(({ attempt }) => attempt)).toEqual([1, 2, 3, 4]);
  });

  it('lets a later record say that a generation is suspect', () => {
    const history = unionOf(
      [
        record(1, { generations: [generation(1, 1)] }),
        record(2, { generations: [generation(1, 1, { suspect: true })] }),
      ],
      undefined,
    );
    expect(history.generations).toHaveLength(1);
    expect(history.generations[0]?.suspect).toBe(true);
  });

  it('forgets a result that turned out to be a death’s', () => {
    const moved = { ...file('a', 1), key: 'a.0.partial-1', suspect: true };
    expect(unionOf([record(1, { results: [file('a', 1)], partials: [moved] })], undefined).results.size).toBe(
      0,
    );
  });
});

describe('restore', () => {
  it('tries whole generations newest first, then incomplete ones, then suspect ones', () => {
    const order = restoreOrder([
      generation(2, 2, { suspect: true }),
      generation(2, 1, { incomplete: true }),
      generation(1, 9),
      generation(1, 10),
    ]);
    expect(order.map((g) => `${g.attempt}-${g.generation}`)).toEqual(['1-10', '1-9', '2-1', '2-2']);
  });

  it('prefers what is proven to what may be of a death, whatever is newer', () => {
    const all = [
      generation(1, 5, { unproven: true, instant: true }),
      generation(1, 4, { unproven: true }),
      generation(1, 3, { incomplete: true }),
      generation(1, 2),
      generation(1, 1),
    ];
    expect(namesOf(restoreOrder(all))).toEqual(['1-2', '1-1', '1-5', '1-4', '1-3']);
    expect(namesOf(restoreOrder(all, true))).toEqual(['1-5', '1-4', '1-2', '1-1', '1-3']);
  });

  it('prefers an instant one to the good one before it, and the good one that follows to both', () => {
    const before = [generation(1, 2, { instant: true }), generation(1, 1)];
    expect(namesOf(restoreOrder(before))).toEqual(['1-2', '1-1']);
    expect(namesOf(restoreOrder([generation(1, 3), ...before]))).toEqual(['1-3', '1-2', '1-1']);
  });
});

describe('a generation from which the task fails', () => {
  const all = [generation(1, 3), generation(1, 2), generation(1, 1)];
  const end = (
    attempt: number,
    restored: string | undefined,
    marks: Partial<AttemptEnd> = {},
  ): AttemptEnd => ({
    attempt,
    kind: 'failed',
    status: 9,
    sameRun: true,
    runId: undefined,
    runToken: 'r',
    host: 'h',
    argv: [],
    restored,
    ...marks,
  });
  const first = end(1, undefined, { kind: 'preempted' });

  it.each<[string, readonly AttemptEnd[], string]>([
    ['is tried twice', [end(2, '1-3')], '1-3'],
    ['gives way to the one before after that', [end(2, '1-3'), end(3, '1-3')], '1-2'],
    ['which is tried twice too', [end(2, '1-3'), end(3, '1-3'), end(4, '1-2'), end(5, '1-2')], '1-1'],
    [
      'and comes again when all were tried',
      [2, 3, 4, 5, 6, 7].map((n) => end(n, `1-${3 - Math.floor((n - 2) / 2)}`)),
      '1-3',
    ],
    [
      'is not blamed for what was stopped from outside',
      [end(2, '1-3', { kind: 'preempted' }), end(3, '1-3'), end(4, '1-3', { kind: 'started' })],
      '1-3',
    ],
    [
      'nor for a store that took too long: the task itself ended with 0',
      [end(2, '1-3', { status: 74 }), end(3, '1-3', { status: 74 })],
      '1-3',
    ],
    ['nor for other runs', [end(2, '1-3', { sameRun: false }), end(3, '1-3')], '1-3'],
  ])('%s', (_, ends, expected) => {
    expect(namesOf(afterFailures(restoreOrder(all), [first, ...ends])).at(0)).toBe(expected);
  });

  it('is forgiven once an attempt has made a newer one', () => {
    const newer = [generation(4, 1), ...all];
    const ends = [first, end(2, '1-3'), end(3, '1-3'), end(4, '1-2')];
    expect(namesOf(afterFailures(restoreOrder(newer), ends))).toEqual(['4-1', '1-3', '1-2', '1-1']);
  });
});

describe('retention', () => {
  it('keeps the newest good generations and what came after them', () => {
    const all = [
      generation(1, 5, { suspect: true }),
      generation(1, 4),
      generation(1, 3),
      generation(1, 2),
      generation(1, 1, { suspect: true }),
    ];
    expect(keptGenerations(all, 2, () => true).map((g) => g.generation)).toEqual([5, 4, 3]);
  });

  it('keeps of instant ones as many as of good ones, and those only until a good one follows', () => {
    const instants = [6, 5, 4].map((number) => generation(1, number, { instant: true }));
    const all = [...instants, generation(1, 3), generation(1, 2, { instant: true }), generation(1, 1)];
    expect(keptGenerations(all, 2, () => true).map((g) => g.generation)).toEqual([6, 5, 3, 1]);
    expect(keptGenerations([generation(1, 7), ...all], 1, () => true).map((g) => g.generation)).toEqual([7]);
  });

  it('never drops the last good generation for a suspect one', () => {
    const all = [generation(1, 3, { suspect: true }), generation(1, 2, { suspect: true }), generation(1, 1)];
    expect(keptGenerations(all, 1, () => true).map((g) => g.generation)).toEqual([3, 2, 1]);
  });

  it('deletes no object that a kept generation names', () => {
    const shared = {
      ...generation(1, 1),
      members: [
        { ...file('big', 1), key: 'big.1-1' },
        { ...file('k', 1), key: 'k.1-1' },
      ],
    };
    const newer = {
      ...generation(1, 2),
      members: [
        { ...file('big', 1), key: 'big.1-1' },
        { ...file('k', 1), key: 'k.1-2' },
      ],
    };
    expect(droppedKeys([shared], [newer])).toEqual(['k.1-1']);
  });

  it('prunes records but the claim, the newest checkpoint, terminal ones and the two newest', () => {
    const keys = [
      '000000.started',
      '000001.started',
      '000002.stored',
      '000003.checkpoint',
      '000004.checkpoint',
      '000005.stored',
      '000006.list',
      '000007.stored',
      '000008.done',
    ].map((name) => `.capture/t/0/0001-${name}.json`);
    expect(prunableRecords(keys).map((key) => key.slice(-22))).toEqual(
      ['000001.started', '000002.stored', '000003.checkpoint', '000005.stored'].map((name) =>
        `.capture/t/0/0001-${name}.json`.slice(-22),
      ),
    );
  });
});
