import { describe, expect, it } from 'vitest';
import { endOf, numberOfSignal } from '../../src/native/wait-status.ts';

describe('a wait status', () => {
  it.each([
    [0x0000, { code: 0, signal: undefined }],
    [0xff00, { code: 255, signal: undefined }],
    [0x0009, { code: undefined, signal: 'SIGKILL' }],
    [0x0086, { code: undefined, signal: 'SIGABRT' }],
    [0x0022, { code: undefined, signal: 'SIG34' }],
    [0x0040, { code: undefined, signal: 'SIG64' }],
  ])('0x%s is an exit code, or a signal with or without a core', (status, ended) => {
    expect(endOf(status)).toEqual(ended);
  });

  it('of an exit is its code, from 0 to 255', () => {
    for (let code = 0; code <= 255; code++) expect(endOf(code << 8)).toEqual({ code, signal: undefined });
  });
});

describe('a signal', () => {
  it('has one number for each name that a wait status gives it, from 1 to 64', () => {
    for (let number = 1; number <= 64; number++) {
      const { signal = '' } = endOf(number);
      expect(numberOfSignal(signal)).toBe(number);
    }
  });

  it.each(['', 'SIG', 'SIGNONE', 'TERM', '34'])('is never made of another word: %j', (name) => {
    expect(() => numberOfSignal(name)).toThrow('is no signal');
  });
});
