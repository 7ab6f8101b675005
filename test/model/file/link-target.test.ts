import { expect, test } from 'vitest';
import { linkStaysInside } from '../../../src/model/file/link-target.ts';

test.each(['k.7', './k.7', '../k.7', '../../k.7', 'x/y', '../x//y'])(
  'a/b/latest -> %s stays inside',
  (target) => {
    expect(linkStaysInside('a/b/latest', target)).toBe(true);
  },
);

test.each(['', '/etc', '../../../x', '..', '.', 'x/../y', '../x/../../y', 'a\0b'])(
  'a/b/latest -> %j does not',
  (target) => {
    expect(linkStaysInside('a/b/latest', target)).toBe(false);
  },
);

test('a link does not stay outside of what belongs to capture', () => {
  expect(linkStaysInside('a/b/latest', '../../.capture/attempt.json')).toBe(false);
  expect(linkStaysInside('latest', './.capture')).toBe(false);
  expect(linkStaysInside('a/latest', '.capture/x')).toBe(true);
});
