import { describe, expect, it } from 'vitest';
import { paceOf, pauseMs, retrying } from '../../../src/store/contract/driver.ts';
import { StoreError, type StoreErrorKind } from '../../../src/store/contract/store.ts';

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

  it('obeys the signal during a pause, and before the first try', async () => {
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

describe('the length of a pause', () => {
  const pauses = (kind: StoreErrorKind, luck: number): readonly number[] => {
    const pace = paceOf({ kind });
    return pace === undefined ? [] : [1, 2, 3, 5, 6, 1000].map((tries) => pauseMs(pace, tries, luck));
  };

  it.each<[StoreErrorKind, readonly number[]]>([
    ['transient', [200, 400, 800, 3200, 5000, 5000]],
    ['lost', [200, 400, 800, 3200, 5000, 5000]],
    ['busy', [1000, 2000, 4000, 10_000, 10_000, 10_000]],
    ['denied', []],
  ])('has a limit that doubles after %s, up to a maximum', (kind, most) => {
    expect(pauses(kind, 1)).toEqual(most);
    expect(pauses(kind, 0.5)).toEqual(most.map((ms) => ms / 2));
    expect(pauses(kind, 0)).toEqual(most.map(() => 0));
  });
});

describe('a server that is busy', () => {
  it.each<[StoreErrorKind, number]>([
    ['transient', 1],
    ['busy', 10],
  ])('%s: is retried for %i budgets', async (kind, budgets) => {
    let nowMs = 0;
    const pause = async (ms: number): Promise<void> => {
      nowMs += ms;
    };
    const work = async (): Promise<never> => {
      throw new StoreError(kind, kind);
    };
    const clock = { now: () => nowMs, pause, luck: () => 0.5 };
    await expect(retrying(work, { budgetMs: 60_000 }, clock)).rejects.toMatchObject({ kind });
    expect(nowMs).toBe(budgets * 60_000);
  });
});
