import { describe, expect, it } from 'vitest';
import { pauseMs, retrying } from '../../../src/store/contract/driver.ts';
import { StoreError } from '../../../src/store/contract/store.ts';

const busy = (): StoreError => new StoreError('transient', 'busy');

describe('retrying', () => {
  it('returns the first success and counts the tries', async () => {
    const tries: number[] = [];
    const work = async (nth: number): Promise<string> => {
      tries.push(nth);
      if (nth < 3) throw busy();
      return 'done';
    };
    expect(await retrying(work, { budgetMs: 10_000 })).toBe('done');
    expect(tries).toEqual([1, 2, 3]);
  });

  it.each([
    ['a store error that no retry can mend', new StoreError('denied', 'no')],
    ['any other error', new TypeError('a bug')],
  ])('throws %s at once', async (_, error) => {
    let tries = 0;
    const work = async (): Promise<never> => {
      tries += 1;
      throw error;
    };
    await expect(retrying(work, { budgetMs: 10_000 })).rejects.toBe(error);
    expect(tries).toBe(1);
  });

  it('tries once without a budget', async () => {
    let tries = 0;
    const work = async (): Promise<never> => {
      tries += 1;
      throw busy();
    };
    await expect(retrying(work, { budgetMs: 0 })).rejects.toThrow('busy');
    expect(tries).toBe(1);
  });

  it('throws the last error when the budget is spent', async () => {
    const work = async (nth: number): Promise<never> => {
      throw new StoreError('transient', `try ${nth}`);
    };
    const startMs = performance.now();
    await expect(retrying(work, { budgetMs: 300 })).rejects.toThrow(/try \d+/);
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(300);
  });

  it('gives the signal its word in the middle of a pause, and before the first try', async () => {
    const abort = new AbortController();
    const reason = new Error('the deadline');
    const work = async (nth: number): Promise<never> => {
      if (nth === 4) setImmediate(() => abort.abort(reason));
      throw busy();
    };
    await expect(retrying(work, { budgetMs: 60_000, signal: abort.signal })).rejects.toBe(reason);
    await expect(retrying(async () => 'never', { budgetMs: 0, signal: abort.signal })).rejects.toBe(reason);
  });
});

describe('pauseMs', () => {
  it('doubles what luck can give, up to 5 s', () => {
    expect([1, 2, 3, 10].map((tries) => pauseMs(tries, 0.5))).toEqual([100, 200, 400, 2500]);
    expect(pauseMs(1000, 1)).toBe(5000);
    expect(pauseMs(5, 0)).toBe(0);
  });
});
