import pLimit from 'p-limit';
import { expect, test } from 'vitest';
import { forEachAtOnce } from '../../src/model/at-once.ts';

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

test('the failure of one is the failure of all', async () => {
  const broken = forEachAtOnce([1, 2, 3], 2, (n) =>
    n === 2 ? Promise.reject(new Error('broken')) : Promise.resolve(),
  );
  await expect(broken).rejects.toThrow('broken');
});
