import { describe, expect, it } from 'vitest';
import type { IndexEntry, Report } from '../../../../src/array/report/data.ts';
import { hashOf, shownOf, viewOf, type View } from '../../../../src/array/report/page/view.ts';

const attempt = { attempt: 1, from: 0, ran: 10, kept: 5, end: 'failed', host: 0, how: 1 } as const;
const entries: readonly IndexEntry[] = [
  { index: '0', state: 'done', attempts: [{ ...attempt, end: 'done', host: 2, how: 3 }] },
  { index: '7', state: 'failed', status: 137, attempts: [attempt] },
  { index: '12', state: 'missing', attempts: [] },
  { index: 'left', state: 'done', attempts: [{ ...attempt, end: 'done' }] },
];
const report: Report = {
  head: {
    format: 1,
    store: 's3://lab/run7',
    task: 't',
    now: 0,
    capture: '0',
    texts: ['node17', 'failed: the task was ended by SIGKILL', 'node18', 'done'],
  },
  entries,
};
const ALL: View = { query: '', states: [], index: undefined, colour: 'state' };
const shown = (view: Partial<View>): readonly string[] =>
  shownOf(report, { ...ALL, ...view }).map(({ index }) => index);

describe('the filter of a report', () => {
  it.each([
    ['', ['0', '7', '12', 'left']],
    ['7-12', ['7', '12']],
    ['0-12:6%5', ['0', '12']],
    ['sigkill NODE17', ['7', 'left']],
    ['failed 137', ['7']],
    ['lef', ['left']],
    ['no such word', []],
  ])('%j shows the right indices', (query, indices) => {
    const found = shown({ query });
    expect(found).toEqual(indices);
  });

  it('shows the states that are chosen, of what the words leave', () => {
    expect(shown({ states: ['failed', 'missing'] })).toEqual(['7', '12']);
    expect(shown({ states: ['failed', 'missing'], query: '8-20' })).toEqual(['12']);
  });
});

describe('the hash of a report', () => {
  it('leads back to what was shown', () => {
    const views: readonly View[] = [
      ALL,
      { query: 'a&b=#100% ü', states: ['failed', 'stale'], index: 'a_7', colour: 'memory' },
      { ...ALL, index: '7' },
    ];
    for (const view of views) expect(viewOf(hashOf(view))).toEqual(view);
    expect(hashOf(ALL)).toBe('');
    expect(hashOf({ ...ALL, index: '7' })).toBe('#index=7');
  });

  it('is believed only where it makes sense', () => {
    expect(viewOf('#state=failed,nonsense,__proto__&colour=red&other=1')).toEqual({
      ...ALL,
      states: ['failed'],
    });
    expect(viewOf('#%')).toEqual(ALL);
  });
});
