// The words of a verdict, for the last line: `verdictLine` of verdict.ts.
import { describe, expect, it } from 'vitest';
import { type Verdict, verdictLine } from '../../../src/model/outcome/verdict.ts';

type End = Parameters<typeof verdictLine>[1];
const ended = (code: number): End => ({ code, signal: undefined });
const killed: End = { code: undefined, signal: 'SIGSEGV' };

describe('the beginning of the last line', () => {
  it.each<[string, Verdict, End, string | undefined, string | undefined]>([
    [
      'a task that fails',
      { kind: 'failed', status: 3 },
      ended(3),
      undefined,
      'failed: the task ended with 3',
    ],
    [
      'a signal',
      { kind: 'failed', status: 139 },
      killed,
      undefined,
      'failed: SIGSEGV ended the task, exit 139',
    ],
    ['what is not stored', { kind: 'failed', status: 74 }, ended(0), undefined, 'failed, exit 74'],
    ['a lost launcher', { kind: 'failed', status: 70 }, ended(70), 'launcher lost', 'failed: launcher lost'],
    [
      'attempts in vain',
      { kind: 'failed', status: 9, reason: '2 attempts without a newer checkpoint' },
      ended(9),
      undefined,
      'failed, exit 9, not to be run again: 2 attempts without a newer checkpoint',
    ],
    [
      'a preemption',
      { kind: 'preempted', status: 75 },
      killed,
      'SIGTERM',
      'to be run again, exit 75: SIGTERM',
    ],
    ['success', { kind: 'done', status: 0 }, ended(0), undefined, undefined],
    ['an end that nobody knows', { kind: 'ended', status: 0 }, undefined, undefined, undefined],
  ])('says %s', (_, verdict, end, because, line) => {
    expect(verdictLine(verdict, end, because)).toBe(line);
  });
});
