import { describe, expect, it } from 'vitest';
import { attemptsInVain } from '../../../src/model/outcome/attempts.ts';
import type { AttemptEnd } from '../../../src/model/checkpoint/history.ts';
import type { Generation } from '../../../src/model/format/records.ts';

const end = (attempt: number, marks: Partial<AttemptEnd> = {}): AttemptEnd => ({
  attempt,
  kind: 'preempted',
  status: 75,
  sameRun: true,
  runId: undefined,
  runToken: 'r',
  host: 'h',
  argv: [],
  ...marks,
});
const made = (attempt: number, marks: Partial<Generation> = {}): Generation => ({
  attempt,
  generation: 1,
  at: '2026-01-01T00:00:00.000Z',
  members: [],
  companions: [],
  ...marks,
});

describe('attempts in vain', () => {
  it.each<[string, number, readonly AttemptEnd[], readonly Generation[], number, boolean?]>([
    ['are none when this one made a checkpoint', 3, [end(1), end(2)], [made(3), made(1)], 0],
    ['are those since the newest checkpoint', 4, [end(1), end(2), end(3)], [made(2), made(1)], 2],
    ['are all when there is no checkpoint', 3, [end(1), end(2)], [], 3],
    ['are one in the first attempt', 1, [], [], 1],
    [
      'count one that made only a suspect checkpoint',
      3,
      [end(1), end(2)],
      [made(2, { suspect: true }), made(1)],
      2,
    ],
    [
      'do not when a suspect one is verified before it is used',
      3,
      [end(1), end(2)],
      [made(2, { suspect: true }), made(1)],
      1,
      true,
    ],
    ['do not when the next attempt has nothing better', 3, [end(1), end(2)], [made(2, { suspect: true })], 1],
    ['leave out other runs', 4, [end(1), end(2, { sameRun: false }), end(3)], [made(1)], 2],
    ['begin anew after what is done', 4, [end(1), end(2, { kind: 'done' }), end(3)], [made(1)], 2],
    ['count one that vanished', 3, [end(1), end(2, { kind: 'started' })], [made(1)], 2],
    ['do not count this one twice when its sidecar was replaced', 3, [end(1), end(2), end(3)], [made(1)], 2],
  ])('%s', (_, attempt, earlier, generations, count, verified = false) => {
    expect(attemptsInVain(earlier, generations, attempt, verified)).toBe(count);
  });
});
