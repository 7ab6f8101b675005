import { expect, it } from 'vitest';
import { nearestWord } from '../../src/model/nearest.ts';

it.each([
  ['reslts', 'results'],
  ['result', 'results'],
  ['to', 'to'],
  ['gracee', 'grace'],
  ['garce', 'grace'],
  ['rgace', 'grace'],
  ['zzzzzz', undefined],
  ['x', undefined],
])('the word nearest to %j is %j', (word, nearest) => {
  expect(nearestWord(word, ['results', 'to', 'grace', 'checkpoints'])).toBe(nearest);
});
