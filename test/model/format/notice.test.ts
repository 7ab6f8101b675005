// What counts as one notice, and what `--notice` takes.
import { describe, expect, test } from 'vitest';
import { parseNotice, sameNotice, type Notice } from '../../../src/model/format/notice.ts';

const stop: Notice = { source: 'ec2', kind: 'stop', atMs: 1_000, what: 'EC2 stops this instance' };

describe('sameNotice', () => {
  test('one told in other words is the same', () => {
    expect(sameNotice(stop, { ...stop, what: 'again' })).toBe(true);
  });

  test.each<[string, Partial<Notice>]>([
    ['source', { source: 'gce' }],
    ['kind', { kind: 'advice' }],
    ['instant', { atMs: 2_000 }],
    ['instant, which only one says', { atMs: undefined }],
  ])('one with another %s is another', (_, other) => {
    expect(sameNotice(stop, { ...stop, ...other })).toBe(false);
  });
});

describe('parseNotice', () => {
  test.each([
    ['auto', { kind: 'auto' }],
    ['none', { kind: 'none' }],
    ['ec2', { kind: 'ec2' }],
    ['gce', { kind: 'gce' }],
    ['azure', { kind: 'azure' }],
    ['file:/run/stop', { kind: 'file', path: '/run/stop' }],
    ['file:a:b', { kind: 'file', path: 'a:b' }],
    ['after:90s', { kind: 'after', ms: 90_000 }],
    ['after:0s', { kind: 'after', ms: 0 }],
  ])('reads %s', (text, value) => {
    expect(parseNotice(text)).toEqual({ value });
  });

  test.each([
    ['', 'not a notice: auto, none'],
    ['EC2', 'not a notice: auto, none'],
    ['file', 'not a notice: auto, none'],
    ['file:', 'file: needs a path'],
    ['file:a\0b', 'file: needs a path'],
    ['after:', 'after: needs a duration'],
    ['after:30', 'after: needs a duration'],
    ['after:25d', 'too long: at most'],
  ])('refuses %j and says what it takes', (text, is) => {
    expect(parseNotice(text)).toEqual({ is: expect.stringContaining(is), example: expect.any(String) });
  });
});
