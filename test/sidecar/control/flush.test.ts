// The order of a flush, with the parts of a run in its hands: what it hears, vouches for, waits for and records.
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { compileManifest } from '../../../src/model/file/manifest.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import { Flush, type FlushParts } from '../../../src/sidecar/control/flush.ts';
import type { Files } from '../../../src/sidecar/queue/files.ts';
import { filesThat, fingerprint, stored } from '../queue/pushes.ts';

let dir: string;
let root: { fd: number; path: string };
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-flush-'));
  root = { fd: fs.openSync(dir, 'r'), path: dir };
});
afterEach(() => {
  fs.closeSync(root.fd);
  fs.rmSync(dir, { recursive: true });
});

const PATTERNS = { results: ['a'], checkpoints: [], inputs: [], companions: [], exclude: [] };
const NEVER = new AbortController().signal;

interface Run {
  readonly parts: FlushParts;
  readonly files: Files;
  /** Ends the pushes that are under way. */
  readonly pushed: () => void;
  /** What the kernel has queued and nobody has read. */
  readonly queued: string[];
  missesCloses: boolean;
  behindLinks: readonly { readonly path: string; readonly why: string }[];
  /** How many have asked to be told at once, and still want it. */
  hurries: number;
  /** Objects that no record names. */
  readonly unrecorded: Set<string>;
  recordFails: number;
  /** Staged results that have not got their names yet, though the task has vouched for them. */
  readonly unnamed: Set<string>;
  /** Resolves when all of them have. */
  naming: Promise<void>;
  /** The mark of a set that is proven by now cannot be taken off so often. */
  settleFails: number;
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
    unnamed: new Set(),
    naming: Promise.resolve(),
    missesCloses: false,
    behindLinks: [],
    hurries: 0,
    recordFails: 0,
    settleFails: 0,
    pushed: () => {
      for (const end of ends.splice(0)) end();
    },
    parts: {
      files,
      watcher: {
        links: { lost: async () => run.behindLinks },
        drainNow: () => {
          for (const path of run.queued.splice(0)) files.closed(path, 'close', 0);
        },
        missesCloses: () => run.missesCloses,
        tellAtOnce: () => {
          run.hurries += 1;
          return () => {
            run.hurries -= 1;
          };
        },
        scan: async function* () {
          yield [{ path: 'found', link: false, facts: { ...fingerprint, mode: 0o644, links: 1 } }];
        },
      },
      generations: {
        covered: () => Promise.resolve({ kind: 'covered' }),
        members: () => [],
        captureNow: () => Promise.resolve(true),
        commits: {
          recordProven: () => {
            run.settleFails -= 1;
            return Promise.resolve(run.settleFails < 0);
          },
        },
      },
      companions: { current: [], known: new Set() },
      unsaved: { look: () => [] },
      staged: {
        settled: async (signal: AbortSignal) => {
          await Promise.race([run.naming, once(signal, 'abort')]);
        },
        due: () => [...run.unnamed].map((name) => ({ file: { path: name, key: `${name}.partial` } })),
      },
      recorder: {
        now: () => {
          if (run.recordFails > 0) run.recordFails -= 1;
          else unrecorded.clear();
          return Promise.resolve();
        },
      },
      context: {
        now: () => 0,
        root,
        signal: NEVER,
        manifest: compileManifest({ ...PATTERNS, newest: undefined }),
        startedAt: new Date(0).toISOString(),
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
  it('covers what the kernel knows to be closed before the call', async () => {
    const run = open();
    run.queued.push('a');
    const end = new Flush(run.parts).now(AbortSignal.timeout(50));
    expect(await end).toEqual({
      left: [{ path: 'a', why: 'it is being sent' }],
      incomplete: undefined,
      open: [],
    });
  });

  it('names what is behind links to directories, as the end of the run does', async () => {
    const run = open();
    run.behindLinks = [{ path: 'run1/b', why: 'run1 is a symbolic link to a directory' }];
    expect((await new Flush(run.parts).now(NEVER)).left).toEqual(run.behindLinks);
  });

  it('scans for files without an event if events are not enough', async () => {
    const run = open();
    run.missesCloses = true;
    const { left } = await new Flush(run.parts).now(AbortSignal.timeout(50));
    expect(left).toEqual([{ path: 'found', why: 'it is being sent' }]);
  });

  it('ends when all of this is stored and a record names it, however many rounds that takes', async () => {
    const run = open();
    run.files.closed('a', 'close', 0);
    run.recordFails = 3;
    const end = new Flush(run.parts).now(NEVER);
    await turn();
    run.pushed();
    expect(await end).toEqual({ left: [], incomplete: undefined, open: [] });
    expect(run.unrecorded.size).toBe(0);
    expect(run.recordFails).toBe(0);
  });

  it.each(['is over', 'is given up'])('receives closes at once until it %s', async (how) => {
    const run = open();
    run.files.closed('a', 'close', 0);
    const stop = new AbortController();
    const end = new Flush(run.parts).now(stop.signal);
    await turn();
    expect(run.hurries).toBe(1);
    if (how === 'is over') run.pushed();
    else stop.abort();
    await end;
    await vi.waitFor(() => expect(run.hurries).toBe(0));
  });

  it('reports files that no record names yet', async () => {
    const run = open();
    run.files.closed('a', 'close', 0);
    run.recordFails = Infinity;
    const stop = new AbortController();
    const end = new Flush(run.parts).now(stop.signal);
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

  it('shares its scan with flushes of the same moment, and with no others', async () => {
    const run = open();
    const needAll = vi.spyOn(run.files, 'needAll');
    const flush = new Flush(run.parts);
    run.files.closed('a', 'close', 0);
    const same = Array.from({ length: 100 }, () => flush.now(new AbortController().signal));
    await turn();
    expect(needAll).toHaveBeenCalledTimes(1);
    run.files.closed('b', 'close', 0);
    const later = flush.now(AbortSignal.timeout(500));
    await turn();
    expect(needAll).toHaveBeenCalledTimes(2);
    run.pushed();
    expect(new Set((await Promise.all(same)).map(({ left }) => left.length))).toEqual(new Set([0]));
    expect((await later).left).toEqual([]);
  });
});

describe('the word of the task', () => {
  const evidence = (files: Files, name: string) => files.get(name, 'result')?.lastClose?.evidence;
  const write = (name: string): void => fs.writeFileSync(path.join(dir, name), 'x');

  it('counts for all that was closed before the call, and for nothing that is closed later', async () => {
    const run = open();
    run.missesCloses = true;
    for (const name of ['a', 'b', 'c', 'found']) write(name);
    run.files.closed('a', 'close', 0, { evidence: 'doubtful' });
    run.queued.push('b', 'gone');
    const end = new Flush(run.parts).now(AbortSignal.timeout(50));
    run.files.closed('c', 'close', 0, { evidence: 'doubtful' });
    await end;
    const told = ['a', 'b', 'gone', 'c', 'found'].map((name) => evidence(run.files, name));
    expect(told).toEqual(['clean', 'clean', 'clean', 'doubtful', 'unknown']);
  });

  it('does not count for a file that is being written', async () => {
    const run = open();
    write('a');
    const writer = fs.openSync(path.join(dir, 'a'), 'r+');
    run.files.closed('a', 'close', 0, { evidence: 'doubtful' });
    const { left } = await new Flush(run.parts).now(AbortSignal.timeout(50));
    fs.closeSync(writer);
    expect(evidence(run.files, 'a')).toBe('doubtful');
    expect(left.map((file) => file.path)).toEqual(['a']);
  });

  it('is not given by a notice, which hurries pushes as a flush does', async () => {
    const run = open();
    write('a');
    run.files.closed('a', 'close', 0, { evidence: 'doubtful' });
    await new Flush(run.parts).now(AbortSignal.timeout(50), false);
    expect(evidence(run.files, 'a')).toBe('doubtful');
  });

  it('gives staged results their names before the answer', async () => {
    const run = open();
    const named = newDeferred<void>();
    run.naming = named.promise;
    let isOver = false;
    const end = new Flush(run.parts).now(NEVER).finally(() => {
      isOver = true;
    });
    for (let n = 0; n < 10; n += 1) await turn();
    expect(isOver).toBe(false);
    named.resolve();
    expect((await end).left).toEqual([]);
  });

  it('that comes too late for a name says so, and a notice waits for no name', async () => {
    const run = open();
    run.naming = new Promise(() => undefined);
    run.unnamed.add('r.dat');
    const { left } = await new Flush(run.parts).now(AbortSignal.timeout(50));
    expect(left).toEqual([{ path: 'r.dat', why: 'it is stored only as r.dat.partial yet' }]);
    expect((await new Flush(run.parts).now(NEVER, false)).left).toEqual([]);
  });

  it('is recorded before the answer, however many rounds that takes', async () => {
    const run = open();
    run.settleFails = 1;
    expect((await new Flush(run.parts).now(NEVER)).left).toEqual([]);
    expect(run.settleFails).toBe(-1);
  });
});
