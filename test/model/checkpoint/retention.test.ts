// Which generations are kept when not all of them are proven: whatever a death makes suspect afterwards, a good
// set that was ever committed is never dropped for it.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Generation } from '../../../src/model/format/records.ts';
import { keptGenerations, withinRoom } from '../../../src/model/checkpoint/retention.ts';
import { isSuspect, provenFromMs } from '../../../src/model/file/suspect.ts';
import type { Close } from '../../../src/model/file/file-state.ts';

const MEMBERS = ['a.chk', 'b.chk'] as const;

function generation(number: number, keys: readonly string[], marks: Partial<Generation> = {}): Generation {
  const members = keys.map((key, at) => ({
    path: MEMBERS[at] ?? key,
    kind: 'file' as const,
    key,
    push: key,
    attempt: 1,
    md5: '0'.repeat(32),
    size: 1,
    compressed: false,
    mtimeNs: '0',
    mode: 0o644,
  }));
  return {
    attempt: 1,
    generation: number,
    at: new Date(0).toISOString(),
    members,
    companions: [],
    ...marks,
  };
}

describe('kept generations', () => {
  it.each([
    { keep: 1, expected: [5, 4] },
    { keep: 3, expected: [5, 4, 3, 1] },
    { keep: 60, expected: [5, 4, 3, 2, 1] },
  ])(
    'of an instant fill up what is left of $keep once a good one follows: $expected',
    ({ keep, expected }) => {
      const instant = { instant: true };
      const all = [5, 4, 3, 2, 1].map((n) => generation(n, [`a.${n}`], n === 4 || n === 1 ? {} : instant));
      expect(keptGenerations(all, keep, () => true).map((one) => one.generation)).toEqual(expected);
    },
  );

  const all = [3, 2, 1].map((number) => generation(number, [`a.${number}`]));
  const kept = (keep: number, ...proven: readonly number[]): readonly number[] =>
    keptGenerations(all, keep, ({ generation: number }) => proven.includes(number)).map(
      ({ generation: number }) => number,
    );

  it.each([
    { keep: 1, proven: [3, 2, 1], expected: [3] },
    { keep: 1, proven: [2, 1], expected: [3, 2] },
    { keep: 1, proven: [1], expected: [3, 2, 1] },
    { keep: 1, proven: [], expected: [3, 2, 1] },
    { keep: 2, proven: [2], expected: [3, 2] },
    { keep: 2, proven: [3], expected: [3, 2] },
    { keep: 2, proven: [1], expected: [3, 2, 1] },
  ])('of three, $keep wanted and $proven proven: $expected', ({ keep, proven, expected }) => {
    expect(kept(keep, ...proven)).toEqual(expected);
  });
});

describe('a death that comes to light later', () => {
  const step = fc.record({
    afterMs: fc.integer({ min: 1, max: 15_000 }),
    /** Which members are closed again, and how; the set is committed after them. */
    closes: fc.uniqueArray(
      fc.record({
        member: fc.constantFrom(0, 1),
        how: fc.constantFrom('close' as const, 'rename' as const),
        evidence: fc.constantFrom('clean' as const, 'doubtful' as const, 'unknown' as const),
      }),
      { minLength: 1, maxLength: 2, selector: ({ member }) => member },
    ),
    signal: fc.boolean(),
  });
  const end = fc.record({
    afterMs: fc.integer({ min: 0, max: 15_000 }),
    killed: fc.boolean(),
  });

  it('never has taken the last good set with it', () => {
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 1, maxLength: 12 }),
        end,
        fc.integer({ min: 1, max: 3 }),
        (steps, { afterMs, killed }, keep) => {
          let nowMs = 0;
          let signalledAtMs: number | undefined;
          let kept: readonly Generation[] = [];
          const objects: { key: string; close: Close }[] = MEMBERS.map((name) => ({
            key: `${name}.0`,
            close: { how: 'rename', atMs: 0, evidence: 'unknown', seq: 0 },
          }));
          const ever: Generation[] = [];
          steps.forEach(({ afterMs: waitMs, closes, signal }, number) => {
            nowMs += waitMs;
            if (signal) signalledAtMs ??= nowMs;
            for (const { member, how, evidence } of closes) {
              objects[member] = {
                key: `${MEMBERS[member]}.${number + 1}`,
                close: { how, atMs: nowMs, evidence, seq: 0 },
              };
            }
            const made = generation(
              number,
              objects.map(({ key }) => key),
            );
            ever.push(made);
            kept = keptGenerations([made, ...kept], keep, ({ members }) =>
              members.every(({ key }) => {
                const current = objects.find((object) => object.key === key);
                return current === undefined || provenFromMs(current.close, signalledAtMs) <= nowMs;
              }),
            );
          });
          const ending = {
            clean: false,
            bySignal: killed,
            endedAtMs: nowMs + afterMs,
            signalledAtMs,
            writersStoppedAtMs: undefined,
          };
          const bad = new Set(objects.filter(({ close }) => isSuspect(close, ending)).map(({ key }) => key));
          const isGood = ({ members }: Generation): boolean => members.every(({ key }) => !bad.has(key));
          expect(kept.length).toBeGreaterThan(0);
          expect(kept.some(isGood)).toBe(ever.some(isGood));
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe('the generations that a record has room for', () => {
  const large = (number: number, files: number): Generation =>
    generation(
      number,
      Array.from({ length: files }, (_, n) => `${'k'.repeat(200)}${n}`),
    );
  const numbers = (all: readonly Generation[], proven: number): readonly number[] =>
    withinRoom(all, (one) => one.generation === proven).map((one) => one.generation);

  it('are all, if they have few files', () => {
    const all = Array.from({ length: 100 }, (_, n) => large(100 - n, 9));
    expect(withinRoom(all, () => true)).toEqual(all);
  });

  it('are the newest, and the newest that is proven', () => {
    const all = [6, 5, 4, 3, 2, 1].map((number) => large(number, 3000));
    expect(numbers(all, 6)).toEqual([6, 5, 4]);
    expect(numbers(all, 2)).toEqual([6, 5, 4, 2]);
  });

  it('are at least the newest', () => {
    expect(numbers([large(2, 40_000), large(1, 10)], 2)).toEqual([2]);
  });

  it('count the pieces of companions, too', () => {
    const segment = {
      key: 'k'.repeat(900),
      push: 'p',
      first: 0,
      size: 1,
      md5: '0'.repeat(32),
      compressed: false,
    };
    const companion = {
      path: 'log',
      size: 1,
      mode: 0o644,
      segments: Array.from({ length: 3000 }, () => segment),
    };
    const all = [4, 3, 2, 1].map((number) => ({ ...large(number, 1), companions: [companion] }));
    expect(numbers(all, 4)).toEqual([4, 3]);
  });
});
