// Which files go first, how many at once, and which are not begun once the time is short. The clock and the link are the
// test's.
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { FileEvent } from '../../../src/model/file/decide.ts';
import type { FileRole } from '../../../src/model/file/file-state.ts';
import { Files } from '../../../src/sidecar/queue/files.ts';
import type { PushHandle } from '../../../src/sidecar/queue/turns.ts';

interface Lab {
  readonly files: Files;
  /** Paths in the order in which their pushes began. */
  readonly begun: string[];
  readonly givenUp: string[];
  passes(ms: number): void;
  /** Everything of this push is in the store. */
  stores(path: string): Promise<void>;
}

function open(
  sizes: Readonly<Record<string, number>>,
  roleOf: (path: string) => FileRole = () => 'result',
): Lab {
  let nowMs = 0;
  const under = new Map<string, { how: PushHandle; end: (event: FileEvent) => void }>();
  const begun: string[] = [];
  const givenUp: string[] = [];
  const files = new Files({
    closeOf: (lastClose) => lastClose,
    isAfter: ({ atMs }, { ctimeNs }) => BigInt(ctimeNs) / 1_000_000n > atMs,
    push: ({ path }, how) =>
      new Promise((resolve) => {
        begun.push(path);
        under.set(path, { how, end: resolve });
        how.signal.addEventListener('abort', () => {
          givenUp.push(path);
          resolve({ kind: 'failed', why: 'given up', atMs: nowMs });
        });
      }),
    rolesOf: (path) => [roleOf(path)],
    sizeOf: (path) => sizes[path] ?? 0,
    catchUp: () => undefined,
    isStill: () => true,
    now: () => nowMs,
    signal: new AbortController().signal,
  });
  return {
    files,
    begun,
    givenUp,
    passes: (ms) => {
      nowMs += ms;
    },
    stores: async (path) => {
      const push = under.get(path);
      push?.how.onSent(sizes[path] ?? 0);
      const fingerprint = { dev: '1', ino: '1', size: sizes[path] ?? 0, mtimeNs: '1', ctimeNs: '1' };
      const durable = { fingerprint, md5: '', size: fingerprint.size };
      push?.end({ kind: 'stored', durable, atMs: nowMs, tookMs: 1 });
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

/** Closes all of them, with the link taken by eight others that then end. */
async function closeAll(lab: Lab, paths: readonly string[]): Promise<void> {
  const others = Array.from({ length: 8 }, (_, at) => `other-${at}`);
  for (const path of [...others, ...paths]) lab.files.closed(path, 'close', 0);
  lab.begun.length = 0;
  lab.files.deadline(100_000);
  lab.passes(1000);
  for (const path of others) await lab.stores(path);
}

const OTHERS = Object.fromEntries(Array.from({ length: 8 }, (_, at) => [`other-${at}`, 1e6]));

afterEach(() => vi.useRealTimers());

describe('while there is time', () => {
  it('a small result waits for no large one', async () => {
    const lab = open({ ...OTHERS, later: 1e6, small: 1000 });
    const others = Object.keys(OTHERS);
    for (const path of [...others, 'later', 'small']) lab.files.closed(path, 'close', 0);
    expect(lab.begun).toEqual([...others, 'small']);
    await lab.stores('other-3');
    expect(lab.begun).toEqual([...others, 'small', 'later']);
  });

  it('a small result waits for no large one, however many large ones wait, and those keep their order', async () => {
    const large = Array.from({ length: 60 }, (_, at) => `large-${at}`);
    const lab = open(Object.fromEntries(large.map((path) => [path, 1e6])));
    for (const path of [...large, 'small']) lab.files.closed(path, 'close', 0);
    expect(lab.begun).toEqual([...large.slice(0, 8), 'small']);
    await lab.stores('large-5');
    await lab.stores('large-0');
    expect(lab.begun.slice(9)).toEqual(['large-8', 'large-9']);
  });

  it('32 small ones are sent at once, and a large one gets its turn among them', async () => {
    const names = Array.from({ length: 40 }, (_, at) => `small-${at}`);
    const lab = open({ large: 1e6 });
    for (const path of [...names.slice(0, 35), 'large', ...names.slice(35)])
      lab.files.closed(path, 'close', 0);
    expect(lab.begun).toEqual(names.slice(0, 32));
    for (const path of names.slice(0, 4)) await lab.stores(path);
    expect(lab.begun.slice(32)).toEqual([...names.slice(32, 35), 'large']);
  });
});

describe('with a deadline', () => {
  it('checkpoints go first, then the smallest results', async () => {
    const sizes = { ...OTHERS, large: 900e3, small: 300e3, middle: 500e3, 'a.chk': 5e6 };
    const lab = open(sizes, (path) => (path.endsWith('.chk') ? 'checkpoint' : 'result'));
    await closeAll(lab, ['large', 'small', 'middle', 'a.chk']);
    expect(lab.begun).toEqual(['a.chk', 'small', 'middle', 'large']);
  });

  it('a push that does not fit beside those under way is not begun, and then nothing waits for it', async () => {
    // 8 MB in 1 s was measured; 99 s are left.
    const lab = open({ ...OTHERS, fits: 600e6, not: 750e6, never: 7e9 });
    await closeAll(lab, ['never', 'not', 'fits']);
    expect(lab.begun).toEqual(['fits']);
    lab.passes(50_000);
    await lab.stores('fits');
    expect(lab.begun).toEqual(['fits', 'not']);
    lab.passes(49_000);
    await lab.stores('not');
    await lab.files.drained(new AbortController().signal);
    expect(lab.begun).toEqual(['fits', 'not']);
    expect(lab.files.waiting).toBe(1);
  });

  it('a push that cannot end in time is given up for one that can', async () => {
    const lab = open({ ...OTHERS, vast: 7e9, small: 1e6 });
    lab.files.closed('vast', 'close', 0);
    await closeAll(lab, ['small']);
    lab.files.deadline(50_000);
    expect(lab.givenUp).toEqual(['vast']);
  });

  it('pushes that a burst has just begun are not given up because little of them is acknowledged yet', async () => {
    const large = Object.fromEntries(Array.from({ length: 7 }, (_, at) => [`large-${at}`, 8e6]));
    const lab = open({ first: 1e6, ...large });
    for (const path of ['first', ...Object.keys(large)]) lab.files.closed(path, 'close', 0);
    lab.passes(1000);
    await lab.stores('first');
    // 1 MB in 1 s was measured, 56 MB are left for 30 s; but they were sent in that second as well.
    lab.files.deadline(31_000);
    expect(lab.givenUp).toEqual([]);
    lab.passes(25_000);
    lab.files.deadline(31_000);
    expect(lab.givenUp).not.toEqual([]);
  });

  it('all results but one wait while a checkpoint keeps the link busy', async () => {
    const sizes = { ...OTHERS, 'a.chk': 400e6, r1: 300e3, r2: 400e3, r3: 500e3 };
    const lab = open(sizes, (path) => (path.endsWith('.chk') ? 'checkpoint' : 'result'));
    await closeAll(lab, ['r3', 'r2', 'r1', 'a.chk']);
    expect(lab.begun).toEqual(['a.chk', 'r1']);
    await lab.stores('r1');
    expect(lab.begun).toEqual(['a.chk', 'r1', 'r2']);
    await lab.stores('a.chk');
    expect(lab.begun).toEqual(['a.chk', 'r1', 'r2', 'r3']);
  });

  it('a drain ends if the next try of what was given up would come after it', async () => {
    const lab = open({ vast: 900e6, 'a.chk': 5e6 }, (path) =>
      path.endsWith('.chk') ? 'checkpoint' : 'result',
    );
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    lab.files.closed('vast', 'close', 0);
    lab.files.deadline(10_000);
    lab.passes(9500);
    lab.files.closed('a.chk', 'close', 0);
    await lab.stores('a.chk');
    expect(lab.givenUp).toEqual(['vast']);
    const ended = vi.fn<() => void>();
    void lab.files.drained(new AbortController().signal).then(ended);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended).not.toHaveBeenCalled();
    lab.passes(1000);
    vi.advanceTimersByTime(1000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(ended).toHaveBeenCalledOnce();
    expect(lab.begun).toEqual(['vast', 'a.chk']);
    expect(lab.files.waiting).toBe(1);
  });

  it('that is withdrawn, everything is sent again', async () => {
    const lab = open({ ...OTHERS, fits: 600e6, not: 750e6 });
    await closeAll(lab, ['not', 'fits']);
    expect(lab.begun).toEqual(['fits']);
    lab.files.deadline(undefined);
    expect(lab.begun).toEqual(['fits', 'not']);
  });

  it('a checkpoint waits for no result that began before it', async () => {
    const results = Object.fromEntries(Array.from({ length: 8 }, (_, at) => [`vast-${at}`, 900e6]));
    const lab = open({ ...results, 'a.chk': 5e6 }, (path) =>
      path.endsWith('.chk') ? 'checkpoint' : 'result',
    );
    for (const path of Object.keys(results)) lab.files.closed(path, 'close', 0);
    lab.files.deadline(10_000);
    expect(lab.begun).toHaveLength(8);
    lab.files.closed('a.chk', 'close', 0);
    expect(lab.begun).toContain('a.chk');
    expect(lab.givenUp).toEqual(Object.keys(results));
  });
});
