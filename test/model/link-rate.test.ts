import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bestLevel, type MeasuredLevel } from '../../src/model/compression-level.ts';
import { LinkRate } from '../../src/model/link-rate.ts';

const MB = 1e6;
const PART_BYTES = 8 * MB;

interface Upload {
  /** Bytes to store that the worker makes in a second. */
  readonly madePerS: number;
  readonly linkPerS: number;
  readonly parts: number;
}

/** As the driver of S3 does it: two parts at once over one link, and nothing before the second part is there. */
class Pipe {
  nowMs = 0;
  readonly link = new LinkRate();

  upload({ madePerS, linkPerS, parts }: Upload): void {
    const makeMs = (PART_BYTES / madePerS) * 1000;
    const sendMs = (PART_BYTES / linkPerS) * 1000;
    const acknowledged: number[] = [];
    const events: { readonly atMs: number; readonly tell: () => void }[] = [];
    let madeMs = this.nowMs;
    let freeMs = 0;
    this.link.bodyStarted();
    for (let n = 0; n < parts; n += 1) {
      const askedMs = n < 2 ? Math.max(this.nowMs, n === 1 ? madeMs : 0) : (acknowledged[n - 2] ?? 0);
      // One part waits to be asked for while the next one is made.
      madeMs = Math.max(madeMs, acknowledged[n - 4] ?? 0) + makeMs;
      const givenMs = Math.max(askedMs, madeMs);
      events.push({ atMs: givenMs, tell: () => this.link.partTaken(givenMs - askedMs, givenMs) });
      if (n === 0) continue;
      // The first leaves together with the second.
      for (let left = n === 1 ? 2 : 1; left > 0; left -= 1) {
        freeMs = Math.max(freeMs, givenMs) + sendMs;
        const sentMs = freeMs;
        acknowledged.push(sentMs);
        events.push({ atMs: sentMs, tell: () => this.link.partAcknowledged(PART_BYTES, sentMs) });
      }
    }
    for (const { tell } of events.toSorted((a, b) => a.atMs - b.atMs)) tell();
    this.nowMs = freeMs;
    this.link.bodyEnded(0, this.nowMs);
    this.nowMs += 60_000;
  }
}

const rate = fc.integer({ min: 1, max: 1000 }).map((n) => n * MB);
/** With two nobody sees whether a third would have had to wait. */
const parts = fc.integer({ min: 2, max: 40 });

describe('the rate of the link', () => {
  it('is known after one file that waited for it', () => {
    fc.assert(
      fc.property(rate, fc.integer({ min: 3, max: 40 }), (linkPerS, count) => {
        const pipe = new Pipe();
        pipe.upload({ madePerS: linkPerS * 20, linkPerS, parts: count });
        expect((pipe.link.bytesPerS ?? 0) / linkPerS).toBeCloseTo(1, 6);
      }),
    );
  });

  it('is not known while files wait for the CPU', () => {
    fc.assert(
      fc.property(rate, parts, (madePerS, count) => {
        const pipe = new Pipe();
        for (let n = 0; n < 5; n += 1) pipe.upload({ madePerS, linkPerS: madePerS * 2, parts: count });
        expect(pipe.link.bytesPerS).toBeUndefined();
      }),
    );
  });

  it('follows a link that becomes slower, and one that becomes so fast that it waits', () => {
    const pipe = new Pipe();
    pipe.upload({ madePerS: 300 * MB, linkPerS: 20 * MB, parts: 20 });
    pipe.upload({ madePerS: 300 * MB, linkPerS: 5 * MB, parts: 20 });
    expect((pipe.link.bytesPerS ?? 0) / MB).toBeCloseTo(5, 0);
    pipe.upload({ madePerS: 300 * MB, linkPerS: 900 * MB, parts: 40 });
    expect((pipe.link.bytesPerS ?? 0) / MB).toBeGreaterThan(600);
  });

  it('is measured again after a body that was given up in the middle', () => {
    const pipe = new Pipe();
    const { link } = pipe;
    link.bodyStarted();
    link.partTaken(0, 0);
    link.partTaken(0, 0);
    link.partAcknowledged(PART_BYTES, 1000);
    link.bodyEnded(1, 500_000);
    pipe.nowMs = 900_000;
    pipe.upload({ madePerS: 300 * MB, linkPerS: 20 * MB, parts: 4 });
    expect((link.bytesPerS ?? 0) / MB).toBeCloseTo(20, 6);
    // Nor is its last part under way for ever: a link at rest is none that is slow.
    pipe.upload({ madePerS: 300 * MB, linkPerS: 900 * MB, parts: 40 });
    expect((link.bytesPerS ?? 0) / MB).toBeGreaterThan(600);
  });

  it('of two files at once is that of both together', () => {
    const link = new LinkRate();
    link.bodyStarted();
    link.bodyStarted();
    for (let n = 0; n < 4; n += 1) link.partTaken(0, 0);
    for (let n = 1; n <= 8; n += 1) {
      link.partAcknowledged(PART_BYTES, n * 100);
      link.partTaken(0, n * 100);
    }
    expect((link.bytesPerS ?? 0) / MB).toBeCloseTo(80, 6);
  });
});

it('one file after another gets the same level over a link that stays as it is', () => {
  const level = fc.record({
    bytesPerS: fc.integer({ min: 10, max: 1000 }).map((n) => n * MB),
    ratio: fc.integer({ min: 50, max: 950 }).map((n) => n / 1000),
  });
  const tried = fc
    .tuple(level, level, level)
    .map((all) => all.map((one, n): MeasuredLevel => ({ ...one, level: n + 1 })));
  fc.assert(
    fc.property(tried, rate, parts, ([least, ...others], linkPerS, count) => {
      if (least === undefined) return;
      const pipe = new Pipe();
      const chosen = Array.from({ length: 8 }, () => {
        const known = pipe.link.bytesPerS;
        const one = known === undefined ? least : bestLevel(least, others, known);
        pipe.upload({ madePerS: one.bytesPerS * one.ratio, linkPerS, parts: count });
        return one.level;
      });
      // The first one measures.
      expect(new Set(chosen.slice(1)).size).toBe(1);
    }),
    { numRuns: 1000 },
  );
});
