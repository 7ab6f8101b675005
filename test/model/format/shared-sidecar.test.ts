import { describe, expect, it } from 'vitest';
import {
  MessageReader,
  messageText,
  NO_NUMBERS,
  numbersOf,
} from '../../../src/model/format/shared-sidecar.ts';

describe('messages on a connection', () => {
  it('come out whole and in order, however their bytes were cut', () => {
    const messages = [{ kind: 'a', text: 'two\nlines' }, { kind: 'b' }, { kind: 'c', name: '\uDCFF' }];
    const text = messages.map((message) => messageText(message)).join('');
    for (let size = 1; size <= text.length; size += 1) {
      const reader = new MessageReader();
      const heard: unknown[] = [];
      for (let at = 0; at < text.length; at += size) heard.push(...reader.read(text.slice(at, at + size)));
      expect(heard).toEqual(messages);
    }
  });

  it('of somebody who speaks otherwise are none', () => {
    expect(() => new MessageReader().read('GET / HTTP/1.1\n')).toThrow(SyntaxError);
    const endless = new MessageReader();
    expect(() => {
      for (let n = 0; n < 17; n += 1) endless.read('x'.repeat(2 ** 20));
    }).toThrow('a message has no end');
  });
});

it('of several tasks the largest lag counts, and all else in sum', () => {
  const one = { lagMs: 300, waitingFiles: 1, storedFiles: 10, storedBytes: 100 };
  const other = { lagMs: 20, waitingFiles: 2, storedFiles: 1, storedBytes: 7 };
  expect(numbersOf([one, other])).toEqual({
    lagMs: 300,
    waitingFiles: 3,
    storedFiles: 11,
    storedBytes: 107,
  });
  expect(numbersOf([])).toEqual(NO_NUMBERS);
});
