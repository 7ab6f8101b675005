import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CapturedCompanion,
  companionsContinue,
  MOST_SEGMENTS,
  type FilePiece,
  planSegments,
  sameCompanions,
} from '../../../src/model/checkpoint/companions.ts';
import type { Fingerprint } from '../../../src/model/file/file-state.ts';
import type { Companion, Segment } from '../../../src/model/format/records.ts';

const MD5 = '0'.repeat(32);
const TAIL: FilePiece = { first: 0, size: 1, md5: MD5 };

const state = (size: number, more: Partial<Fingerprint> = {}): Fingerprint => ({
  dev: '1',
  ino: '1',
  size,
  mtimeNs: String(size),
  ctimeNs: String(size),
  ...more,
});

/** Segments of these sizes, one after the other; keys are their places. */
function segmentsOf(sizes: readonly number[]): Segment[] {
  let end = 0;
  return sizes.map((size) => {
    end += size;
    return { key: `${end - size}-${end}`, push: 'p', first: end - size, size, md5: MD5, compressed: false };
  });
}

function companionOf(sizes: readonly number[], path = 'md.log'): Companion {
  const size = sizes.reduce((sum, one) => sum + one, 0);
  return { path, size, mode: 0o644, segments: segmentsOf(sizes) };
}

function captured(sizes: readonly number[], more: Partial<Fingerprint> = {}): CapturedCompanion {
  const companion = companionOf(sizes);
  return { companion, source: { fingerprint: state(companion.size, more), tail: TAIL } };
}

describe('what is read of a companion', () => {
  it('is all of it the first time', () => {
    expect(planSegments(undefined, state(5))).toEqual({ known: [], tail: undefined, end: 5 });
  });

  it('is nothing while it has not changed', () => {
    expect(planSegments(captured([3, 2]), state(5))).toBeUndefined();
  });

  it('is what is new when the same file has grown and its tail is as it was', () => {
    const before = captured([3, 2]);
    expect(planSegments(before, state(9))).toEqual({ known: before.companion.segments, tail: TAIL, end: 9 });
  });

  it.each([
    ['another file stands at the path', captured([3, 2]), state(9, { ino: '2' }), undefined],
    [
      'a file of the same number on another device stands there',
      captured([3, 2]),
      state(9, { dev: '2' }),
      undefined,
    ],
    ['another file of the same size stands there', captured([3, 2]), state(5, { ino: '2' }), undefined],
    ['it was rewritten with the same size', captured([3, 2]), state(5, { mtimeNs: '99' }), TAIL],
  ])('is known only by its content when %s', (_, before, now, tail) => {
    expect(planSegments(before, now)).toEqual({ known: before.companion.segments, tail, end: now.size });
  });

  it('is looked at piece by piece in an attempt that resumed from it', () => {
    const before: CapturedCompanion = { companion: companionOf([3, 2]), source: undefined };
    expect(planSegments(before, state(5))).toEqual({
      known: before.companion.segments,
      tail: undefined,
      end: 5,
    });
  });

  it('is no piece that ends beyond it when it was cut back', () => {
    const plan = planSegments(captured([3, 2, 4]), state(6));
    expect(plan).toMatchObject({ known: segmentsOf([3, 2]), tail: undefined, end: 6 });
  });
});

describe('the list of segments', () => {
  const growth = fc.array(fc.integer({ min: 1, max: 1000 }), { minLength: 1, maxLength: 400, size: 'max' });

  /** Grows a file step by step; answers with the last list, its longest length, and the bytes sent. */
  function grow(steps: readonly number[], most: number) {
    let before: CapturedCompanion | undefined;
    let size = 0;
    let sentBytes = 0;
    let longest = 0;
    for (const step of steps) {
      size += step;
      const known = planSegments(before, state(size), most)?.known ?? [];
      const kept = known.map((segment) => segment.size);
      const keptBytes = kept.reduce((sum, one) => sum + one, 0);
      expect(known).toEqual(before?.companion.segments.slice(0, known.length) ?? []);
      sentBytes += size - keptBytes;
      before = captured([...kept, size - keptBytes]);
      longest = Math.max(longest, kept.length + 1);
    }
    return { longest, sentBytes, size, segments: before?.companion.segments ?? [] };
  }

  it('covers the file without a gap and stays short, however the file grows', () => {
    fc.assert(
      fc.property(growth, fc.constantFrom(20, 50), (steps, most) => {
        const { longest, size, segments } = grow(steps, most);
        expect(longest).toBeLessThanOrEqual(most);
        let end = 0;
        for (const segment of segments) {
          expect(segment.first).toBe(end);
          end += segment.size;
        }
        expect(end).toBe(size);
      }),
    );
  });

  it('sends no byte more often than the size has binary digits', () => {
    fc.assert(
      fc.property(growth, (steps) => {
        const { sentBytes, size } = grow(steps, 20);
        expect(sentBytes).toBeLessThanOrEqual(size * (2 + Math.log2(size + 1)));
      }),
    );
  });

  it('is not sent again as a whole each time that it is full', () => {
    const { sentBytes, size } = grow(
      Array.from({ length: 3000 }, () => 1),
      20,
    );
    expect(sentBytes).toBeLessThanOrEqual(size * (2 + Math.log2(size)));
  });

  it('of even steps is merged only when it is full', () => {
    const { sentBytes, size, longest } = grow(
      Array.from({ length: MOST_SEGMENTS }, () => 7),
      MOST_SEGMENTS,
    );
    expect([sentBytes, longest]).toEqual([size, MOST_SEGMENTS]);
  });
});

describe('what companions go on from', () => {
  const before = [companionOf([3, 2], 'a'), companionOf([1], 'b')];

  it('is the same pieces with more behind them', () => {
    expect(
      companionsContinue(before, [companionOf([3, 2, 9], 'a'), companionOf([1], 'b'), companionOf([4], 'c')]),
    ).toBe(true);
  });

  it.each([
    ['created again', [companionOf([9], 'a'), companionOf([1], 'b')]],
    ['cut back', [companionOf([3], 'a'), companionOf([1], 'b')]],
    ['removed', [companionOf([3, 2], 'a')]],
    [
      'joined from other pieces of the same keys',
      [{ ...companionOf([3, 2], 'a'), segments: segmentsOf([3, 2]).toReversed() }, companionOf([1], 'b')],
    ],
  ])('is not a companion that was %s', (_, now) => {
    expect(companionsContinue(before, now)).toBe(false);
  });

  it('is the same only when no piece was added', () => {
    expect(sameCompanions(before, [companionOf([3, 2], 'a'), companionOf([1], 'b')])).toBe(true);
    expect(sameCompanions(before, [companionOf([3, 2, 1], 'a'), companionOf([1], 'b')])).toBe(false);
  });
});
