// What of the work of an index is kept, and what is lost.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { workTimes } from '../../../src/array/report/work-time.ts';
import { parseRecord, type CaptureRecord } from '../../../src/model/format/records.ts';
import type { State } from '../../../src/model/format/json-output.ts';
import { recordOf, type Given } from '../store-of-records.ts';

const MINUTE_MS = 60_000;
const START_MS = Date.parse('2026-11-22T10:00:00.000Z');
const at = (minutes: number): string => new Date(START_MS + minutes * MINUTE_MS).toISOString();

const generation = (name: string, minutes: number, marks: object = {}): object => {
  const [attempt, number] = name.split('-').map(Number);
  return { attempt, generation: number, at: at(minutes), members: [], companions: [], ...marks };
};

interface Attempt extends Partial<Given> {
  readonly attempt: number;
  readonly from: number;
  readonly to: number;
  readonly sets?: readonly object[];
}

const records = (...attempts: readonly Attempt[]): readonly CaptureRecord[] =>
  attempts.map(({ from, to, sets = [], ...given }) => {
    const { text } = recordOf({
      index: '1',
      seq: 5,
      kind: 'checkpoint',
      startedAt: at(from),
      at: at(to),
      generations: sets as never,
      ...given,
    });
    const record = parseRecord(text);
    if ('invalid' in record) throw new Error(record.invalid);
    return record;
  });

/** `attempt: ran kept`, in minutes. */
const told = (of: readonly CaptureRecord[], state: State): readonly string[] =>
  workTimes(of, state).map(
    ({ attempt, ranMs, keptMs }) => `${attempt}: ${ranMs / MINUTE_MS} ${keptMs / MINUTE_MS}`,
  );

describe('what is kept of the work of an index', () => {
  it('is all of an attempt that is done', () => {
    expect(told(records({ attempt: 1, from: 0, to: 60, kind: 'done' }), 'done')).toEqual(['1: 60 60']);
  });

  it('is what a killed attempt had computed up to the checkpoint that the next one restored', () => {
    const both = records(
      { attempt: 1, from: 0, to: 60, sets: [generation('1-2', 50), generation('1-1', 20)] },
      { attempt: 2, from: 70, to: 100, kind: 'done', restored: '1-2' },
    );
    expect(told(both, 'done')).toEqual(['1: 60 50', '2: 30 30']);
  });

  it('is less if an older checkpoint was restored', () => {
    const both = records(
      { attempt: 1, from: 0, to: 60, sets: [generation('1-2', 50), generation('1-1', 20)] },
      { attempt: 2, from: 70, to: 100, kind: 'done', restored: '1-1' },
    );
    expect(told(both, 'done')).toEqual(['1: 60 20', '2: 30 30']);
  });

  it('is nothing of attempts that a later one did not go on from', () => {
    const three = records(
      { attempt: 1, from: 0, to: 60, sets: [generation('1-1', 20)] },
      { attempt: 2, from: 60, to: 90, restored: '1-1', sets: [generation('1-1', 20)] },
      { attempt: 3, from: 100, to: 150, kind: 'done', restored: '1-1' },
    );
    expect(told(three, 'done')).toEqual(['1: 60 20', '2: 30 0', '3: 50 50']);
    const scratch = records({ attempt: 1, from: 0, to: 60 }, { attempt: 2, from: 60, to: 90, kind: 'done' });
    expect(told(scratch, 'done')).toEqual(['1: 60 0', '2: 30 30']);
  });

  it.each(['failed', 'stale', 'preempted'] as const)(
    'is what stands in the newest good checkpoint, if it is %s',
    (state) => {
      const sets = [generation('2-9', 88, { suspect: true }), generation('2-1', 80), generation('1-1', 20)];
      const two = records(
        { attempt: 1, from: 0, to: 60, sets: [generation('1-1', 20)] },
        { attempt: 2, from: 60, to: 90, restored: '1-1', sets },
      );
      expect(told(two, state)).toEqual(['1: 60 20', '2: 30 20']);
    },
  );

  it('is what the newest checkpoint holds while an attempt runs, as it may be dead', () => {
    const two = records(
      { attempt: 1, from: 0, to: 60, sets: [generation('1-1', 20)] },
      { attempt: 2, from: 60, to: 90, restored: '1-1', sets: [generation('2-1', 80), generation('1-1', 20)] },
    );
    expect(told(two, 'running')).toEqual(['1: 60 20', '2: 30 20']);
  });

  it('is what the checkpoint holds, while the newest attempt has only begun', () => {
    const two = records(
      { attempt: 1, from: 0, to: 60, sets: [generation('1-1', 20)] },
      { attempt: 2, from: 60, to: 60, seq: 0, kind: 'started' },
    );
    expect(told(two, 'running')).toEqual(['1: 60 20', '2: 0 0']);
  });

  it('counts nothing that no record names any more, and ends where records contradict themselves', () => {
    const gone = records(
      { attempt: 1, from: 0, to: 60 },
      { attempt: 2, from: 60, to: 90, kind: 'done', restored: '1-7' },
    );
    expect(told(gone, 'done')).toEqual(['1: 60 0', '2: 30 30']);
    const circle = records({ attempt: 1, from: 0, to: 60, kind: 'done', restored: '1-1' });
    expect(told(circle, 'done')).toEqual(['1: 60 60']);
  });

  it('is never more than an attempt was at work, whatever clocks say', () => {
    const attempt = fc.record({
      from: fc.integer({ min: -50, max: 50 }),
      to: fc.integer({ min: -50, max: 50 }),
      set: fc.integer({ min: -50, max: 50 }),
      restored: fc.nat({ max: 6 }),
    });
    const state = fc.constantFrom<State>('done', 'failed', 'stale', 'running', 'preempted', 'ended');
    fc.assert(
      fc.property(fc.array(attempt, { minLength: 1, maxLength: 6 }), state, (given, state) => {
        const all = records(
          ...given.map(({ from, to, set, restored }, at) => ({
            attempt: at + 1,
            from,
            to,
            sets: [generation(`${at + 1}-1`, set)],
            ...(restored === 0 ? {} : { restored: `${restored}-1` }),
          })),
        );
        for (const { ranMs, keptMs } of workTimes(all, state))
          expect(keptMs >= 0 && keptMs <= ranMs).toBe(true);
      }),
    );
  });
});
