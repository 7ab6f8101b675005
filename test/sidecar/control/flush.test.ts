// The order of a flush, with the parts of a run in its hands: what it hears, waits for and records.
import { describe, expect, it, vi } from 'vitest';
import type { StoredFile } from '../../../src/core/records.ts';
import type { Files } from '../../../src/sidecar/files/files.ts';
import { openFlush, type FlushParts } from '../../../src/sidecar/control/flush.ts';
import { filesThat, fingerprint, stored } from './pushes.ts';

const NEVER = new AbortController().signal;

interface Run {
  readonly parts: FlushParts;
  readonly files: Files;
  /** Ends the pushes that are under way. */
  readonly pushed: () => void;
  /** What the kernel has queued and nobody has read. */
  readonly queued: string[];
  missesCloses: boolean;
  /** Objects that no record names. */
  readonly unrecorded: Set<string>;
  recordFails: number;
}

function open(): Run {
  const ends: (() => void)[] = [];
  const unrecorded = new Set<string>();
  const files = filesThat(async ({ path }) => {
    await new Promise<void>((resolve) => ends.push(resolve));
    unrecorded.add(path);
    return stored;
  });
  const run: Run = {
    files,
    queued: [],
    unrecorded,
    missesCloses: false,
    recordFails: 0,
    pushed: () => {
      for (const end of ends.splice(0)) end();
    },
    parts: {
      files,
      watcher: {
        drainNow: () => {
          for (const path of run.queued.splice(0)) files.closed(path, 'close', 0);
        },
        missesCloses: () => run.missesCloses,
        scan: async function* () {
          yield [{ path: 'found', link: false, facts: { ...fingerprint, mode: 0o644, links: 1 } }];
        },
      },
      generations: {
        covered: () => Promise.resolve({ kind: 'covered' }),
        members: () => [],
        captureNow: () => Promise.resolve(true),
      },
      companions: { current: [], known: new Set() },
      unsaved: { look: () => [] },
      recorder: {
        now: () => {
          if (run.recordFails > 0) run.recordFails -= 1;
          else unrecorded.clear();
          return Promise.resolve();
        },
      },
      context: {
        now: () => 0,
        signal: NEVER,
        ledger: {
          unrecorded: () => [...unrecorded].map((path) => ({ path, push: path })),
          isRecorded: ({ push }: Pick<StoredFile, 'push'>) => !unrecorded.has(push),
        },
      },
    } as unknown as FlushParts,
  };
  return run;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('a flush', () => {
  it('counts what the kernel knows to be closed before it was called', async () => {
    const run = open();
    run.queued.push('a');
    const end = openFlush(run.parts)(AbortSignal.timeout(50));
    expect(await end).toEqual({
      left: [{ path: 'a', why: 'it is being sent' }],
      incomplete: undefined,
      open: [],
    });
  });

  it('looks for what gave no event where events are not enough', async () => {
    const run = open();
    run.missesCloses = true;
    const { left } = await openFlush(run.parts)(AbortSignal.timeout(50));
    expect(left).toEqual([{ path: 'found', why: 'it is being sent' }]);
  });

  it('is over when all of it is stored and a record names it, however often that takes', async () => {
    const run = open();
    run.files.closed('a', 'close', 0);
    run.recordFails = 3;
    const end = openFlush(run.parts)(NEVER);
    await turn();
    run.pushed();
    expect(await end).toEqual({ left: [], incomplete: undefined, open: [] });
    expect(run.unrecorded.size).toBe(0);
    expect(run.recordFails).toBe(0);
  });

  it('says what no record names yet', async () => {
    const run = open();
    run.files.closed('a', 'close', 0);
    run.recordFails = Infinity;
    const stop = new AbortController();
    const end = openFlush(run.parts)(stop.signal);
    await turn();
    run.pushed();
    await vi.waitFor(() => expect(run.unrecorded.size).toBe(1));
    await turn();
    stop.abort();
    expect(await end).toEqual({
      left: [{ path: 'a', why: 'no record names it yet' }],
      incomplete: undefined,
      open: [],
    });
  });

  it('shares its pass with those of the same moment, and with no other', async () => {
    const run = open();
    const needAll = vi.spyOn(run.files, 'needAll');
    const flush = openFlush(run.parts);
    run.files.closed('a', 'close', 0);
    const same = Array.from({ length: 100 }, () => flush(new AbortController().signal));
    await turn();
    expect(needAll).toHaveBeenCalledTimes(1);
    run.files.closed('b', 'close', 0);
    const later = flush(AbortSignal.timeout(500));
    await turn();
    expect(needAll).toHaveBeenCalledTimes(2);
    run.pushed();
    expect(new Set((await Promise.all(same)).map(({ left }) => left.length))).toEqual(new Set([0]));
    expect((await later).left).toEqual([]);
  });
});
