import v8 from 'node:v8';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { listStates } from '../../src/array/list-states.ts';
import { countsOf, othersThan, stateOf, statesOf, storedStates } from '../../src/array/state.ts';
import type { IndexRow, RecordAt } from '../../src/array/survey.ts';
import { parseIndexSet, type IndexSet } from '../../src/model/index-set.ts';
import type { RecordKind } from '../../src/model/format/records.ts';

const NOW = 1_000_000;
const STALE = 1000;

const at = (kind: RecordKind, seq = 1): RecordAt => ({
  key: 'k',
  attempt: 1,
  seq,
  kind,
  status: undefined,
  modifiedMs: NOW,
});

const rowOf = (index: string, newest: RecordAt, given: Partial<IndexRow> = {}): IndexRow => ({
  index,
  attempts: 1,
  newestOfEach: [newest.key],
  newest,
  telling: newest.seq === 0 ? undefined : newest,
  claimedMs: undefined,
  seenMs: NOW,
  checkpointMs: undefined,
  ...given,
});

const setOf = (text: string): IndexSet => parseIndexSet(text) ?? { ranges: [] };

describe('the state of an index', () => {
  it.each(['done', 'failed', 'preempted', 'ended'] as const)(
    'is %s after such a last record, however old',
    (kind) => {
      expect(stateOf(rowOf('1', at(kind), { seenMs: 0 }), NOW, STALE)).toBe(kind);
    },
  );

  it.each(['started', 'stored', 'checkpoint'] as const)(
    'is running after a record %s, and stale without a sign of life',
    (kind) => {
      expect(stateOf(rowOf('1', at(kind), { seenMs: NOW - STALE }), NOW, STALE)).toBe('running');
      expect(stateOf(rowOf('1', at(kind), { seenMs: NOW - STALE - 1 }), NOW, STALE)).toBe('stale');
    },
  );

  it('stays done if a later attempt was only claimed and gives no sign of life', () => {
    const row = rowOf('1', at('started', 0), { telling: at('done'), seenMs: NOW - STALE - 1 });
    expect(stateOf(row, NOW, STALE)).toBe('done');
    expect(stateOf({ ...row, seenMs: NOW }, NOW, STALE)).toBe('running');
    expect(stateOf({ ...row, telling: at('failed') }, NOW, STALE)).toBe('stale');
  });
});

describe('the states of an array', () => {
  it('of which something is stored are found without looking at the others', () => {
    const survey = {
      rows: [rowOf('7', at('done')), rowOf('a', at('done')), rowOf('9000000', at('done'))],
      nowMs: NOW,
    };
    const found = storedStates(survey, STALE, setOf('0-9999999'));
    expect(found.map(({ index }) => index)).toEqual(['7', '9000000']);
  });

  it('are not listed if they do not fit into memory', () => {
    const survey = { rows: [], nowMs: NOW };
    expect(listStates(survey, STALE, setOf('0-9'))).toHaveLength(10);
    const heap = v8.getHeapStatistics();
    vi.spyOn(v8, 'getHeapStatistics').mockReturnValue({ ...heap, heap_size_limit: 2000 });
    onTestFinished(() => void vi.restoreAllMocks());
    expect(() => listStates(survey, STALE, setOf('0-99'))).toThrow(
      /more than the 10 indices that fit into memory/,
    );
  });

  const rows = [
    rowOf('0', at('done')),
    rowOf('2', at('failed')),
    rowOf('10', at('done')),
    rowOf('x', at('done')),
  ];

  it('are those of all indices that are stored', () => {
    const states = [...statesOf({ rows, nowMs: NOW }, STALE)];
    expect(states.map(({ index, state }) => `${index} ${state}`)).toEqual([
      '0 done',
      '2 failed',
      '10 done',
      'x done',
    ]);
  });

  it('are those of a set, with what is missing of it', () => {
    const survey = { rows, nowMs: NOW };
    const states = [...statesOf(survey, STALE, setOf('1-3,10-12:2'))];
    expect(states.map(({ index, state }) => `${index} ${state}`)).toEqual([
      '1 missing',
      '2 failed',
      '3 missing',
      '10 done',
      '12 missing',
    ]);
    expect(countsOf(states)).toMatchObject({ missing: 3, failed: 1, done: 1, running: 0 });
    expect(othersThan(survey, setOf('1-3,10-12:2'))).toEqual(['0', 'x']);
  });
});
