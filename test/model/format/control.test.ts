import { describe, expect, it } from 'vitest';
import {
  controlLine,
  flushedAnswer,
  LONGEST_LINE_BYTES,
  parseAnswer,
  parseRequest,
} from '../../../src/model/format/control.ts';

describe('a message on the control socket', () => {
  it.each([{ kind: 'ping' } as const, { kind: 'flush', timeoutMs: 30_000 } as const])(
    'is one line, and comes back as it was: %j',
    (request) => {
      const line = controlLine(request);
      expect(line.indexOf('\n')).toBe(line.length - 1);
      expect(parseRequest(line.trimEnd())).toEqual(request);
    },
  );

  it('keeps a file name with a line feed on its line', () => {
    const answer = flushedAnswer({
      left: [{ path: 'a\nb', why: 'it\nwaits' }],
      incomplete: undefined,
      open: [{ path: 'c\nd', checkpoint: true }],
    });
    const line = controlLine(answer);
    expect(line.indexOf('\n')).toBe(line.length - 1);
    expect(parseAnswer(line.trimEnd())).toEqual(answer);
  });

  it.each([
    '',
    'flush',
    '[]',
    'null',
    '{}',
    '{"kind":"flush"}',
    '{"kind":"flush","timeoutMs":-1}',
    '{"kind":"flush","timeoutMs":1e99}',
    '{"kind":"flush","timeoutMs":"30s"}',
  ])('is no request: %s', (line) => {
    expect(parseRequest(line)).toBeUndefined();
  });

  it.each([
    '',
    '{"kind":"flushed"}',
    '{"kind":"refused"}',
    '{"kind":"flushed","left":[{"path":3}],"more":0}',
    '{"kind":"flushed","left":[null],"more":0}',
    '{"kind":"flushed","left":[],"more":0,"open":[{"path":"a"}]}',
  ])('is no answer: %s', (line) => {
    expect(parseAnswer(line)).toBeUndefined();
  });

  it('names as many files as fit into a line, and counts the others', () => {
    const left = Array.from({ length: 5000 }, (_, n) => ({
      path: `${'\u0001'.repeat(200)}${n}`,
      why: 'x'.repeat(9000),
    }));
    const open = left.map(({ path }, n) => ({ path, checkpoint: n === 4999 }));
    const answer = flushedAnswer({ left, incomplete: undefined, open });
    const named = answer.kind === 'flushed' ? answer.left.length : 0;
    expect(Buffer.byteLength(controlLine(answer))).toBeLessThanOrEqual(LONGEST_LINE_BYTES);
    expect(named).toBeGreaterThan(3);
    expect(answer).toMatchObject({ more: 5000 - named });
    // What matters most is among those that are named.
    expect(answer.kind === 'flushed' && answer.open[0]).toEqual(open[4999]);
  });
});
