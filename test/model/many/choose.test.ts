import { describe, expect, it } from 'vitest';
import {
  inTurn,
  lackingEverywhere,
  lackingHere,
  stateOfSubmission,
  type WorkerAbility,
} from '../../../src/model/many/choose.ts';
import { seen, submission } from '../../many/submissions.ts';

const small: WorkerAbility = {
  capabilities: new Set(['gpu']),
  whyNever: () => undefined,
};

describe('the state of a submission', () => {
  it.each([
    ['ready', {}, { waiting: 3 }],
    ['running', {}, { running: 1 }],
    ['empty', {}, {}],
    ['failed', {}, { failed: 1 }],
    ['over', { overMs: 1 }, {}],
    ['cancelled', { cancelledMs: 1 }, { waiting: 3 }],
  ] as const)('is %s', (kind, changes, counts) => {
    const one = seen(changes, counts);
    expect(stateOfSubmission(one, [one]).kind).toBe(kind);
  });

  it('is halted when as many have failed as --halt says', () => {
    const halt = { kind: 'soon', fail: { kind: 'count', count: 2 } } as const;
    const [before, after] = [
      seen({ halt }, { waiting: 5, failed: 1 }),
      seen({ halt }, { waiting: 5, failed: 2 }),
    ];
    expect(stateOfSubmission(before, [before]).kind).toBe('ready');
    expect(stateOfSubmission(after, [after])).toEqual({ kind: 'halted', how: 'soon' });
  });

  it('waits for those before it until the store has them as done', () => {
    const next = seen({ name: 'next', after: ['mesh'] }, { waiting: 5 });
    const emptied = seen({ name: 'mesh' });
    const done = seen({ name: 'mesh', overMs: 1 });
    expect(stateOfSubmission(next, [next, emptied])).toEqual({ kind: 'after', names: ['mesh'] });
    expect(stateOfSubmission(next, [next, done]).kind).toBe('ready');
  });

  it('does not take one that Redis has lost for done', () => {
    const next = seen({ name: 'next', after: ['mesh'] }, { waiting: 5 });
    expect(stateOfSubmission(next, [next]).kind).toBe('after');
  });
});

describe('a worker takes', () => {
  it('the highest priority first, of two that are equal the older one, and nothing of an empty one', () => {
    const all = [
      seen({ name: 'young', submittedMs: 9 }, { waiting: 1 }),
      seen({ name: 'old', submittedMs: 5 }, { waiting: 1 }),
      seen({ name: 'urgent', submittedMs: 10, priority: 1 }, { waiting: 1 }),
      seen({ name: 'empty', priority: 9 }),
    ];
    expect(inTurn(all).map(({ name }) => name)).toEqual(['urgent', 'old', 'young']);
  });

  it('nothing that needs what it has not', () => {
    expect(lackingHere(submission({ capabilities: ['gpu'] }), small)).toEqual([]);
    expect(lackingHere(submission({ capabilities: ['gpu', 'openfoam'] }), small)).toEqual(['openfoam']);
  });
});

describe('what no worker has', () => {
  it('is what no single worker has all of', () => {
    const both = seen({ name: 'both', capabilities: ['gpu', 'mpi'] }, { waiting: 1 });
    const one = seen({ name: 'one', capabilities: ['gpu'] }, { waiting: 1 });
    const workers = [{ capabilities: ['gpu'] }, { capabilities: ['mpi'] }];
    expect([...lackingEverywhere([both, one], workers)]).toEqual([['gpu,mpi', ['both']]]);
    expect(lackingEverywhere([both, one], [{ capabilities: ['mpi', 'gpu'] }]).size).toBe(0);
  });
});
