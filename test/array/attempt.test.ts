// The few words behind a state in the table of all indices.
import { describe, expect, it } from 'vitest';
import { whyOf } from '../../src/array/attempt.ts';
import { EXIT } from '../../src/model/exit-status.ts';
import type { CaptureRecord } from '../../src/model/format/records.ts';
import { LAUNCHER_LOST } from '../../src/model/outcome/verdict.ts';

const STATUSES = Object.values(EXIT).filter((status) => status !== EXIT.ok);

function why(end: CaptureRecord['end'], more: Partial<CaptureRecord> = {}): string | undefined {
  return whyOf({ kind: 'failed', end, ...more } as CaptureRecord);
}

describe('a failed attempt', () => {
  it.each(STATUSES)('has a word for the status %d if capture gave it', (status) => {
    expect(why({ status, reason: 'x' })).toMatch(/^[a-z ]+$/);
    expect(why({ status, code: 0 })).toMatch(/^[a-z ]+$/);
  });

  it.each(STATUSES)('has no word for the status %d of its task', (status) => {
    expect(why({ status, code: status })).toBe(undefined);
  });

  it.each([
    [{ status: EXIT.internal, code: EXIT.internal, reason: LAUNCHER_LOST }, 'capture killed'],
    [{ status: EXIT.notStored, code: 0 }, 'not all stored'],
    [{ status: EXIT.notStored, code: 0, reason: '3 attempts ... (--max-attempts 3)' }, 'no more attempts'],
    [{ status: 3, code: 3, reason: '3 attempts ... (--max-attempts 3)' }, 'no more attempts'],
    [{ status: EXIT.unavailable, reason: 'no access' }, 'not started'],
    [{ status: EXIT.usage, code: EXIT.usage, reason: 's (--exit-file) holds no exit status' }, 'wrong usage'],
    [{ status: EXIT.notStored, code: 0, why: 'disk full' }, 'disk full'],
    [{ status: 137, signal: 'SIGKILL' }, undefined],
  ])('says what it knows: %j: %s', (end, word) => {
    expect(why(end)).toBe(word);
  });

  it('says first who asked it to end', () => {
    const stop = { reason: 'x', why: 'time limit' };
    expect(why({ status: EXIT.notStored, code: 0 }, { stop })).toBe('time limit');
  });
});

it('an attempt that is done or preempted needs no word of its own status', () => {
  expect(why({ status: EXIT.preempted, code: 0 }, { kind: 'preempted' })).toBe(undefined);
  expect(why({ status: EXIT.ok, code: 0 }, { kind: 'done' })).toBe(undefined);
});
