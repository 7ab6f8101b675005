import { getEventListeners } from 'node:events';
import { describe, expect, it, test, vi } from 'vitest';
import { forEachAtOnce, linkSignals, pauseAfter, readAhead, whileLinked } from '../../src/model/waiting.ts';
import pLimit from 'p-limit';

describe('linked signals', () => {
  it('abort with the first of them, and with its reason', () => {
    const [one, two] = [new AbortController(), new AbortController()];
    const { signal } = linkSignals(one.signal, undefined, two.signal);
    expect(signal.aborted).toBe(false);
    two.abort('enough');
    one.abort('too late');
    expect(signal.reason).toBe('enough');
  });

  it('let many pieces of work listen, without a warning', () => {
    const { signal } = linkSignals(new AbortController().signal);
    const warnings: unknown[] = [];
    const note = (warning: unknown): void => void warnings.push(warning);
    const emitWarning = vi.spyOn(process, 'emitWarning').mockImplementation(note);
    for (let n = 0; n < 20; n += 1) signal.addEventListener('abort', () => undefined);
    emitWarning.mockRestore();
    expect(warnings).toEqual([]);
  });

  it('are aborted at once when one of them is', () => {
    const running = new AbortController().signal;
    expect(linkSignals(running, AbortSignal.abort('before')).signal.reason).toBe('before');
    expect(getEventListeners(running, 'abort')).toHaveLength(0);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['done', () => Promise.resolve(1)],
    ['failed', () => Promise.reject(new Error('no'))],
  ])('leave nothing at the signal of the run once the work is %s', async (_, work) => {
    const run = new AbortController().signal;
    const working = whileLinked([run, new AbortController().signal], () => {
      expect(getEventListeners(run, 'abort')).toHaveLength(1);
      return work();
    });
    await working.catch(() => undefined);
    expect(getEventListeners(run, 'abort')).toHaveLength(0);
  });

  it('leave nothing at the others when one of them aborts', () => {
    const run = new AbortController().signal;
    const late = new AbortController();
    linkSignals(run, late.signal);
    late.abort();
    expect(getEventListeners(run, 'abort')).toHaveLength(0);
  });
});

// What all of capture takes from p-limit for granted.
test('never more than the limit run, and all come in their order', async () => {
  const limit = pLimit(3);
  const order: number[] = [];
  let running = 0;
  let most = 0;
  const work = Array.from({ length: 20 }, (_, n) =>
    limit(async () => {
      running += 1;
      most = Math.max(most, running);
      order.push(n);
      await new Promise(setImmediate);
      running -= 1;
      return n;
    }),
  );
  expect(await Promise.all(work)).toEqual(order);
  expect(most).toBe(3);
});

test('a failure is the answer of its own work, and gives its place back', async () => {
  const limit = pLimit(1);
  await expect(limit(() => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  expect(await limit(() => Promise.resolve('fine'))).toBe('fine');
});

test('with a limit of one the works never overlap, nor begin before the caller has ended its own step', async () => {
  const limit = pLimit(1);
  const told: string[] = [];
  const work = ['a', 'b'].map((name) =>
    limit(async () => {
      told.push(`${name} begins`);
      await new Promise(setImmediate);
      told.push(`${name} ends`);
      if (name === 'a') throw new Error('broken');
    }),
  );
  told.push('asked for both');
  await Promise.allSettled(work);
  expect(told).toEqual(['asked for both', 'a begins', 'a ends', 'b begins', 'b ends']);
});

test('of very many items no more are taken than are worked on', async () => {
  let taken = 0;
  let done = 0;
  let most = 0;
  function* items(): Generator<number> {
    for (let n = 0; n < 100; n += 1) {
      taken += 1;
      most = Math.max(most, taken - done);
      yield n;
    }
  }
  await forEachAtOnce(items(), 4, async () => {
    await new Promise(setImmediate);
    done += 1;
  });
  expect([taken, done, most]).toEqual([100, 100, 4]);
});

test('after the failure of one no other is taken, and those under way are waited for', async () => {
  const [taken, done]: [number[], number[]] = [[], []];
  async function* items(): AsyncGenerator<number> {
    for (let n = 1; n <= 9; n += 1) yield n;
  }
  const broken = forEachAtOnce(items(), 2, async (n) => {
    taken.push(n);
    if (n === 2) throw new Error('broken');
    await new Promise(setImmediate);
    done.push(n);
  });
  await expect(broken).rejects.toThrow('broken');
  expect({ taken, done }).toEqual({ taken: [1, 2], done: [1] });
});

test('a pause doubles up to its bound and stays there, however many there have been', () => {
  const backOff = { firstMs: 250, mostMs: 1500 };
  expect([0, 1, 2, 3, 4, 1e6].map((before) => pauseAfter(backOff, before))).toEqual([
    250, 500, 1000, 1500, 1500, 1500,
  ]);
});

test('a pause grows by its own factor', () => {
  const backOff = { firstMs: 250, mostMs: 5000, factor: 1.5 };
  expect([0, 1, 2, 9].map((before) => pauseAfter(backOff, before))).toEqual([250, 375, 562.5, 5000]);
});

test('a pause whose first is its bound is always the same', () => {
  expect([0, 1, 100].map((before) => pauseAfter({ firstMs: 500, mostMs: 500 }, before))).toEqual([
    500, 500, 500,
  ]);
});

describe('reading ahead', () => {
  it('keeps the order, and never has more under way than it may', async () => {
    let [under, most] = [0, 0];
    const read = async (item: number): Promise<number> => {
      under += 1;
      most = Math.max(most, under);
      // The earlier ones take longer.
      for (let turn = 20 - item; turn > 0; turn -= 1) await Promise.resolve();
      under -= 1;
      return item;
    };
    const seen: number[] = [];
    for await (const item of readAhead([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], 3, read)) seen.push(item);
    expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(most).toBeLessThanOrEqual(3);
  });

  it('tells the failure of one in its turn', async () => {
    const seen: number[] = [];
    const all = async (): Promise<void> => {
      const read = async (item: number): Promise<number> => {
        if (item === 2) throw new Error('two');
        return item;
      };
      for await (const item of readAhead([0, 1, 2, 3], 4, read)) seen.push(item);
    };
    await expect(all()).rejects.toThrow('two');
    expect(seen).toEqual([0, 1]);
  });
});
