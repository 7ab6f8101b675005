import { expect, it } from 'vitest';
import { chooseLevel } from '../../src/read/level.ts';

const SAMPLE_BYTES = 2 ** 20;

/** Each level makes it half of what the one below does, at once. Notes what was tried. */
function halving(): { readonly tried: number[]; readonly compress: (level: number) => Promise<number> } {
  const tried: number[] = [];
  const compress = async (level: number): Promise<number> => {
    tried.push(level);
    return SAMPLE_BYTES / 2 ** level;
  };
  return { tried, compress };
}

it('chooses the smallest output over a link that is slower than any core', async () => {
  const { tried, compress } = halving();
  expect(await chooseLevel(SAMPLE_BYTES, 1, compress)).toBe(3);
  expect(tried).toEqual([1, 2, 3]);
});

it('tries no other level if less output would not save time on the link', async () => {
  const { tried, compress } = halving();
  expect(await chooseLevel(SAMPLE_BYTES, 1e15, compress)).toBe(1);
  expect(tried).toEqual([1]);
});
