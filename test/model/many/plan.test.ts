import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EXIT } from '../../../src/model/exit-status.ts';
import { parseIndexSet } from '../../../src/model/index-set.ts';
import type { Halt } from '../../../src/model/many/halt.ts';
import { type Ending, Plan, tooMany } from '../../../src/model/many/plan.ts';

const NEVER: Halt = { kind: 'never' };
const planOf = (last: number, options: { retries?: number; halt?: Halt } = {}): Plan =>
  new Plan({ indices: { ranges: [{ first: 0, last, step: 1 }] }, retries: 0, halt: NEVER, ...options });

const endingOf = (kind: Ending['kind']): Ending => ({ kind, status: kind === 'done' ? 0 : 1, atMs: 0 });

/** Starts the next one, which must be there. */
const start = (plan: Plan): number => {
  const index = plan.next();
  if (index === undefined) throw new Error('none waits');
  plan.started(index, 0);
  return index;
};

/** All that are started, one after the other, if each ends as `endOf` says. */
const orderOf = (plan: Plan, endOf: (index: number, start: number) => Ending['kind']): readonly number[] => {
  const order: number[] = [];
  while (plan.next() !== undefined) {
    const index = start(plan);
    order.push(index);
    plan.ended(index, endingOf(endOf(index, plan.startsOf(index))));
  }
  return order;
};

describe('the order of starts', () => {
  it('is that of the indices, whatever their distances, and those that are done already are left out', () => {
    const ranges = [
      { first: 3, last: 3, step: 1 },
      { first: 10, last: 30, step: 10 },
    ];
    const plan = new Plan({ indices: { ranges }, retries: 0, halt: NEVER });
    plan.doneAlready(10);
    expect(orderOf(plan, () => 'done')).toEqual([3, 20, 30]);
    expect(plan.counts()).toMatchObject({ done: 3, doneAlready: 1, waiting: 0 });
  });

  it('puts one that failed at the end of the line, as often as it has retries', () => {
    const plan = planOf(3, { retries: 2 });
    expect(orderOf(plan, (index) => (index === 1 ? 'failed' : 'done'))).toEqual([0, 1, 2, 3, 1, 1]);
    expect(plan.counts()).toMatchObject({ done: 3, failed: 1 });
    expect(plan.failures().map(({ index }) => index)).toEqual([1]);
  });

  it('puts those that were given back before all others, the oldest first, and counts no retry for them', () => {
    const plan = planOf(4);
    for (const index of [start(plan), start(plan), start(plan)].toReversed())
      expect(plan.ended(index, endingOf('again'))).toBe('again');
    expect(plan.counts()).toMatchObject({ waiting: 5, again: 3 });
    expect(orderOf(plan, () => 'done')).toEqual([2, 1, 0, 3, 4]);
  });

  it('leaves one that is started out of turn, or done meanwhile, out of the line', () => {
    const plan = planOf(3, { retries: 1 });
    for (const index of [start(plan), start(plan)]) plan.ended(index, endingOf('again'));
    plan.started(1, 0);
    plan.started(3, 0);
    plan.doneAlready(0);
    expect(plan.next()).toBe(2);
    expect(plan.ended(1, endingOf('failed'))).toBe('retry');
    expect(orderOf(plan, () => 'done')).toEqual([2, 1]);
    expect(plan.running()).toEqual([3]);
  });

  it.each(['again', 'failed'] as const)(
    'puts one that comes back (%s) behind those that came before',
    (kind) => {
      const plan = planOf(2, { retries: 2 });
      const comesBack = (index: number): void => {
        plan.started(index, 0);
        plan.ended(index, endingOf(kind));
      };
      for (const index of [0, 1, 2, 1, 0]) comesBack(index);
      expect(orderOf(plan, () => 'done')).toEqual([2, 1, 0]);
    },
  );

  it('never tries again what capture itself refused, or another attempt has', () => {
    const plan = planOf(1, { retries: 9 });
    expect(orderOf(plan, (index) => (index === 0 ? 'final' : 'fenced'))).toEqual([0, 1]);
    expect(plan.counts()).toMatchObject({ failed: 1, fenced: 1 });
  });
});

describe('halting', () => {
  it('starts none more after so many failures, each after its last retry', () => {
    const plan = planOf(9, { retries: 1, halt: { kind: 'soon', fail: { kind: 'count', count: 2 } } });
    expect(orderOf(plan, (index) => (index < 3 ? 'failed' : 'done'))).toEqual([
      ...Array.from({ length: 10 }, (_, index) => index),
      0,
      1,
    ]);
    expect(plan.halting()).toBe('soon');
    expect(plan.isOver()).toBe(true);
    expect(plan.verdict()).toBe(1);
  });

  it('is not over as long as one runs', () => {
    const plan = planOf(9);
    const index = start(plan);
    plan.stop('now');
    plan.stop('soon');
    expect([plan.halting(), plan.next(), plan.isOver()]).toEqual(['now', undefined, false]);
    plan.ended(index, endingOf('again'));
    expect([plan.isOver(), plan.verdict()]).toEqual([true, EXIT.preempted]);
  });
});

describe('the exit status', () => {
  it.each([
    ['0 if all are done', ['done', 'done'], EXIT.ok],
    ['1 if one failed', ['done', 'failed'], 1],
    ['76 if all that lacks is with other attempts', ['done', 'fenced'], EXIT.fenced],
    ['1 if one failed, and another is fenced', ['failed', 'fenced'], 1],
  ] as const)('is %s', (_title, ends, status) => {
    const plan = planOf(1);
    orderOf(plan, (index) => ends[index] ?? 'done');
    expect(plan.verdict()).toBe(status);
  });

  it('is 75 if it was told to stop and some wait, also when one failed; and not if none waits', () => {
    const [some, none] = [planOf(2), planOf(0)];
    for (const plan of [some, none]) {
      const index = start(plan);
      plan.stop('soon');
      plan.ended(index, endingOf('failed'));
    }
    expect([some.verdict(), none.verdict()]).toEqual([EXIT.preempted, 1]);
  });
});

describe('whatever happens', () => {
  /** At each step one of at most `most` that run ends somehow, or the next is started. */
  const steps = fc.array(
    fc.record({
      what: fc.constantFrom('start', 'start', 'end', 'already'),
      which: fc.nat(),
      kind: fc.constantFrom<Ending['kind']>('done', 'done', 'failed', 'failed', 'again', 'fenced', 'final'),
    }),
    { maxLength: 200 },
  );

  it('each index ends exactly once, no more of it runs at a time, and its tries are bounded', () => {
    fc.assert(
      fc.property(steps, fc.nat(30), fc.nat(3), (some, last, retries) => {
        const plan = planOf(last, { retries });
        const running = new Set<number>();
        const over = new Map<number, string>();
        const again = new Map<number, number>();
        const end = (index: number, kind: Ending['kind']): void => {
          running.delete(index);
          const fate = plan.ended(index, endingOf(kind));
          if (fate === 'again') again.set(index, (again.get(index) ?? 0) + 1);
          if (fate !== 'again' && fate !== 'retry') {
            expect(over.has(index)).toBe(false);
            over.set(index, fate);
          }
        };
        const begin = (): void => {
          const index = plan.next();
          if (index === undefined) return;
          expect(running.has(index) || over.has(index)).toBe(false);
          plan.started(index, 0);
          running.add(index);
          expect(plan.startsOf(index)).toBeLessThanOrEqual(1 + retries + (again.get(index) ?? 0));
        };
        const check = (): void => {
          const { waiting, running: runs, done, doneAlready, failed, fenced } = plan.counts();
          expect(waiting + runs + done + doneAlready + failed + fenced).toBe(plan.size);
          expect([runs, done + doneAlready + failed + fenced]).toEqual([running.size, over.size]);
        };
        for (const { what, which, kind } of some) {
          const one = [...running][which % Math.max(1, running.size)];
          const index = which % (last + 1);
          if (what === 'start') begin();
          else if (what === 'end' && one !== undefined) end(one, kind);
          else if (what === 'already' && !running.has(index) && !over.has(index)) {
            plan.doneAlready(index);
            over.set(index, 'doneAlready');
          }
          check();
        }
        while (!plan.isOver()) {
          for (const index of running) end(index, 'done');
          begin();
        }
        check();
        expect(over.size).toBe(plan.size);
      }),
    );
  });
});

it('a hundred thousand that all fail and are tried again come back in their order', () => {
  const plan = planOf(99_999, { retries: 1 });
  const order = orderOf(plan, (_index, start) => (start === 1 ? 'failed' : 'done'));
  expect(order.length).toBe(200_000);
  expect(order.every((index, at) => index === at % 100_000)).toBe(true);
});

it.each([
  ['0-9999999', undefined],
  ['0-10000000', '10000001 indices are more than one array can have here: 10000000 at most'],
  ['0-2147483647:2', '1073741824 indices are more than one array can have here: 10000000 at most'],
])('of %s says at once if they are too many', (text, message) => {
  const indices = parseIndexSet(text);
  if (indices === undefined) throw new Error('refused');
  expect(tooMany(indices)?.message).toBe(message);
});
