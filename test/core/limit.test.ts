import { expect, test } from 'vitest';
import { createLimit } from '../../src/core/limit.ts';

test('never more than the limit run, and all come in their order', async () => {
  const limit = createLimit(3);
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
  const limit = createLimit(1);
  await expect(limit(() => Promise.reject(new Error('broken')))).rejects.toThrow('broken');
  expect(await limit(() => Promise.resolve('fine'))).toBe('fine');
});
