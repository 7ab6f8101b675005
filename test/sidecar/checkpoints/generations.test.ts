// What a flush waits for, of checkpoint sets: as generations counts them. Of files: queue/needs.test.ts.
import { describe, expect, it } from 'vitest';
import { Coverage, type Covered } from '../../../src/sidecar/checkpoints/generations.ts';

const NEVER = new AbortController().signal;
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('the coverage of a set', () => {
  it('is there when a cut that came after the close is committed', async () => {
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

  it('is not awaited when nothing can be committed before something more is closed', async () => {
    const coverage = new Coverage();
    coverage.closed();
    coverage.looked('b.chk is still to come');
    expect(await coverage.wait(NEVER)).toEqual({ kind: 'incomplete', lacks: 'b.chk is still to come' });
  });

  it('is awaited while a cut is under way, even if the set looks incomplete meanwhile', async () => {
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

  it('is late when the signal aborts first', async () => {
    const coverage = new Coverage();
    coverage.closed();
    expect(await coverage.wait(AbortSignal.abort())).toEqual({ kind: 'late' });
    coverage.cutTaken(true);
    coverage.looked('nothing new');
    expect(await coverage.wait(AbortSignal.abort())).toEqual({ kind: 'late' });
  });
});
