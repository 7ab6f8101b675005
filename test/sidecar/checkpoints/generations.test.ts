// What a flush waits for, of checkpoint sets: as generations counts them. Of files: queue/needs.test.ts. When no cut
// begins any more.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import { Coverage, type Covered, Generations } from '../../../src/sidecar/checkpoints/generations.ts';
import { Files } from '../../../src/sidecar/queue/files.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

const NEVER = new AbortController().signal;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('the coverage of a set', () => {
  it('exists when a cut from after the close is committed', async () => {
    const coverage = new Coverage();
    coverage.closed();
    const older = coverage.cutTaken(true);
    coverage.closed();
    let end: Covered | undefined;
    const waiting = coverage.wait(NEVER).then((covered) => (end = covered));
    coverage.committed(older);
    await turn();
    expect(end).toBeUndefined();
    coverage.committed(coverage.cutTaken(true));
    expect(await waiting).toEqual({ kind: 'covered' });
  });

  it('is not awaited when nothing can be committed before a further close', async () => {
    const coverage = new Coverage();
    coverage.closed();
    coverage.looked('b.chk is still to come');
    expect(await coverage.wait(NEVER)).toEqual({ kind: 'incomplete', lacks: 'b.chk is still to come' });
  });

  it('is awaited during a cut, even if the set looks incomplete meanwhile', async () => {
    const coverage = new Coverage();
    coverage.closed();
    const cut = coverage.cutTaken(true);
    const waiting = coverage.wait(NEVER);
    coverage.looked('nothing new');
    coverage.committed(cut);
    expect(await waiting).toEqual({ kind: 'covered' });
  });

  it('is awaited again after a cut was given up', async () => {
    const coverage = new Coverage();
    coverage.closed();
    coverage.cutTaken(true);
    coverage.looked('nothing new');
    const waiting = coverage.wait(NEVER);
    coverage.givenUp();
    await turn();
    coverage.committed(coverage.cutTaken(true));
    expect(await waiting).toEqual({ kind: 'covered' });
  });

  it('is too late when the signal aborts first', async () => {
    const coverage = new Coverage();
    coverage.closed();
    expect(await coverage.wait(AbortSignal.abort())).toEqual({ kind: 'late' });
    coverage.cutTaken(true);
    coverage.looked('nothing new');
    expect(await coverage.wait(AbortSignal.abort())).toEqual({ kind: 'late' });
  });
});

describe('a set that is complete', () => {
  let root: TestDir;
  beforeEach(() => {
    process.on('SIGIO', ignore);
    root = testDir();
  });
  afterEach(() => {
    root.remove();
    process.off('SIGIO', ignore);
  });

  const ignore = (): void => undefined;

  /** The files of the cut that begins when the only checkpoint is closed, in a run that `signal` gives up. */
  function cutOf(signal: AbortSignal): readonly string[] {
    const cut: string[] = [];
    const files = new Files({
      closeOf: (lastClose) => lastClose,
      isAfter: ({ atMs }, { ctimeNs }) => BigInt(ctimeNs) / 1_000_000n > atMs,
      push: () => new Promise(() => undefined),
      rolesOf: () => ['checkpoint'],
      sizeOf: () => 1,
      catchUp: () => undefined,
      isStill: () => true,
      now: () => 0,
      signal,
    });
    const patterns = { results: [], checkpoints: ['k.chk'], inputs: [], companions: [], exclude: [] };
    const parts = {
      context: {
        root,
        manifest: compileManifest({ ...patterns, newest: undefined }),
        settings: { manifest: patterns, checkpointSettleMs: 1000 },
        ledger: { generations: [], takeovers: [] },
        now: () => 0,
        signal,
      },
      files,
      checkpoints: {
        objectOf: () => undefined,
        sendsOther: () => false,
        held: {
          hold: (path: string) => cut.push(path),
          isWhole: () => true,
          release: () => undefined,
          releaseAll: () => undefined,
        },
      },
      companions: { areDeclared: false, areDue: false },
      drainEvents: () => undefined,
      isLast: () => false,
      restored: [],
      behind: () => [],
      links: { lost: async () => [] },
      onCommitted: () => undefined,
    };
    const generations = new Generations(parts as unknown as ConstructorParameters<typeof Generations>[0]);
    root.write('k.chk', 'x');
    files.closed('k.chk', 'close', 0);
    generations.closed('k.chk', 'close', 0);
    generations.pause();
    files.stop();
    return cut;
  }

  it('is cut at once', () => {
    expect(cutOf(NEVER)).toEqual(['k.chk']);
  });

  it('is not cut after the run was given up', () => {
    expect(cutOf(AbortSignal.abort())).toEqual([]);
  });
});
