// From when on content may stand under its result's own name. When a close is suspect: outcome/verdict.test.ts.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Close } from '../../../src/model/file/file-state.ts';
import { closeOfContent, isSuspect, provenFromMs } from '../../../src/model/file/suspect.ts';

const AT_MS = 100_000;
/** A wrapper may pass on a death that is this old. */
const LATE_MS = 10_000;
const close = (evidence: Close['evidence'], how: Close['how'] = 'close'): Close => ({
  how,
  atMs: AT_MS,
  evidence,
  seq: 1,
});

describe('content may have its result’s name', () => {
  it.each<[string, Close | undefined, number | undefined, number]>([
    ['at once when nobody has closed it', undefined, undefined, 0],
    ['at once when nobody died as it was closed', close('clean'), undefined, 0],
    ['at once when it was renamed into place', close('doubtful', 'rename'), undefined, 0],
    ['at once when it was linked into place', close('doubtful', 'link'), undefined, 0],
    ['ten seconds after a close that may be a death’s', close('doubtful'), undefined, AT_MS + LATE_MS],
    ['ten seconds later when nobody can see who closes it', close('unknown'), undefined, AT_MS + LATE_MS],
    ['at once for a clean close after SIGTERM', close('clean'), AT_MS - 1, 0],
    ['for no other close after SIGTERM before the end', close('unknown'), AT_MS - 1, Infinity],
    ['nor for one in the same millisecond', close('unknown'), AT_MS, Infinity],
    ['nor for one that may be a death’s', close('doubtful'), AT_MS - 1, Infinity],
    ['as without SIGTERM when it was closed before that', close('unknown'), AT_MS + 1, AT_MS + LATE_MS],
  ])('%s', (_, one, signalledAtMs, expected) => {
    expect(provenFromMs(one, signalledAtMs)).toBe(expected);
  });

  it('not before no death that comes to light can make it suspect', () => {
    const anyClose = fc.record({
      how: fc.constantFrom('close' as const, 'rename' as const, 'link' as const, 'scan' as const),
      evidence: fc.constantFrom('clean' as const, 'doubtful' as const, 'unknown' as const),
      atMs: fc.nat(20_000),
      seq: fc.constant(1),
    });
    fc.assert(
      fc.property(
        anyClose,
        fc.option(fc.nat(30_000), { nil: undefined }),
        fc.nat(30_000),
        fc.boolean(),
        (one, signalledAtMs, laterMs, killed) => {
          const namedMs = provenFromMs(one, signalledAtMs);
          if (namedMs === Infinity) return;
          const endedAtMs = Math.max(namedMs, one.atMs, signalledAtMs ?? 0) + laterMs;
          const ending = { clean: false, writersStoppedAtMs: undefined, endedAtMs, signalledAtMs };
          expect(isSuspect(one, { ...ending, bySignal: killed })).toBe(false);
        },
      ),
      // The task ends in the very millisecond in which the doubt is settled.
      {
        numRuns: 3000,
        examples: [[{ how: 'close', evidence: 'unknown', atMs: 0, seq: 1 }, undefined, 0, false]],
      },
    );
  });
});

describe('the close that made the content', () => {
  it.each<[string, number, Close['evidence']]>([
    ['is the last one, when nothing has changed since', AT_MS - 500, 'clean'],
    ['is the last one, when two clocks that tell whole ms differ', AT_MS + 1.9, 'clean'],
    ['is unknown when it was changed later', AT_MS + 3, 'unknown'],
  ])('%s', (_, changedMs, evidence) => {
    expect(closeOfContent(close('clean'), changedMs, AT_MS + 5000)?.evidence).toBe(evidence);
  });
});
