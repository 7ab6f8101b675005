import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  checkpointKey,
  keptKey,
  mayCompress,
  partialKey,
  resultKey,
  segmentKey,
} from '../../../src/model/format/keys.ts';
import { originOf } from '../../../src/model/format/origin.ts';
import { anyPath } from '../../support/any-path.ts';

const scope = { taskName: 'lmp', index: '3' };
const ours = {
  push: '8e795042-947d-4509-8acb-8add3295cf6b',
  capture: '0.1.0',
  index: '3',
  'run-id': 'A',
};

describe('an object', () => {
  it.each([false, true])('of capture is known by its metadata and its key (compressed: %s)', (zst) => {
    const at = { attempt: 2, generation: 5 };
    expect(originOf(resultKey('a/r.dat', scope, zst), ours)).toEqual({
      kind: 'result',
      path: 'a/r.dat',
      runId: 'A',
    });
    for (const key of [
      checkpointKey('k.chk', scope, at, zst),
      segmentKey('md.log', scope, { ...at, segment: 3 }, zst),
      partialKey('r.dat', scope, { attempt: 2, n: 0 }, zst),
      partialKey('r.dat', scope, { attempt: 2, n: 1 }, zst),
      keptKey('r.dat', scope, 1, zst),
    ]) {
      expect(originOf(key, ours), key).toEqual({ kind: 'other', runId: 'A' });
    }
  });

  it('of capture is known whatever the file is called, and is taken for that file or for none', () => {
    const scopes = fc.record({
      taskName: fc.stringMatching(/^[\w.-]{1,64}$/),
      index: fc.constantFrom('0', '3', '12', 'a_b', 'x-1'),
    });
    fc.assert(
      fc.property(anyPath, scopes, fc.boolean(), (path, anyScope, zst) => {
        const compressed = zst && mayCompress(path);
        const meta = { ...ours, index: anyScope.index };
        const origin = originOf(resultKey(path, anyScope, compressed), meta);
        const known = resultKey(path, anyScope, false).includes('%~') ? undefined : path;
        expect(origin).toEqual({ kind: 'result', path: known, runId: 'A' });
        const at = { attempt: 2, generation: 31 };
        for (const key of [
          checkpointKey(path, anyScope, at, compressed),
          segmentKey(path, anyScope, { ...at, segment: 3 }, compressed),
          partialKey(path, anyScope, { attempt: 2, n: 0 }, compressed),
          partialKey(path, anyScope, { attempt: 2, n: 7 }, compressed),
          keptKey(path, anyScope, 1, compressed),
        ])
          expect(originOf(key, meta), key).toEqual({ kind: 'other', runId: 'A' });
      }),
      { numRuns: 2000 },
    );
  });

  it('that somebody put there is theirs, whatever its name looks like', () => {
    expect(originOf('mesh.3', {})).toBeUndefined();
    expect(originOf('k.chk.lmp.3.2-5', {})).toBeUndefined();
    expect(originOf('mesh.3', { push: 'today', capture: 'yes' })).toBeUndefined();
  });

  it('that was copied to a name of its own is theirs, though a copy keeps the metadata', () => {
    expect(originOf('mesh', ours)).toBeUndefined();
    expect(originOf('mesh.dat', ours)).toBeUndefined();
  });

  it('is none of ours without an index', () => {
    const { index: _, ...others } = ours;
    expect(originOf('r.dat.12.zst', others)).toBeUndefined();
  });
});
