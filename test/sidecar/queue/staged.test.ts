// When a staged object gets its result's own name: no store, in time that the test makes.
import { TaskNews } from '../../../src/sidecar/run/task-news.ts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Close } from '../../../src/model/file/file-state.ts';
import type { StoredFile } from '../../../src/model/format/records.ts';
import { Paths } from '../../../src/model/packed/packed-map.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import { Staged, type StagedObject } from '../../../src/sidecar/queue/staged.ts';

const START_MS = 1_000_000;
/** A wrapper may pass on a death that is this old. */
const DOUBT_MS = 10_000;
const NEVER = new AbortController().signal;

let staged: Staged;
/** What got its name, in this order. */
let named: string[];
let told: string[];
/** What a promotion does before it has succeeded. */
let promotion: (one: StagedObject) => Promise<void>;
beforeEach(() => {
  vi.useFakeTimers({ now: START_MS });
  named = [];
  told = [];
  promotion = () => Promise.resolve();
  staged = new Staged({
    paths: new Paths(),
    now: () => Date.now(),
    taskNews: new TaskNews(() => Date.now()),
    promote: async (path, one) => {
      if (!staged.has(path, one)) return;
      await promotion(one);
      named.push(one.file.push);
      staged.named(path, one);
    },
    onFailed: (path, error) => told.push(`${path}: ${String(error)}`),
  });
});
afterEach(() => {
  staged.close();
  vi.useRealTimers();
});

const close = (evidence: Close['evidence'] = 'doubtful', how: Close['how'] = 'close'): Close => ({
  how,
  atMs: Date.now(),
  evidence,
  seq: 1,
});
/** The object of a close that came now. */
const object = (push: string, one: Close | undefined = close()): StagedObject => ({
  file: { path: 'r', push, key: `r.0.partial-1.${push}` } as StoredFile,
  tag: push,
  close: one,
  fingerprint: { dev: '1', ino: '1', size: 1, mtimeNs: '1', ctimeNs: '1' },
  closes: 1,
  readMs: Date.now(),
});
const passes = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const turn = (): Promise<unknown> => passes(0);

describe('a staged object', () => {
  it('gets its name when the task has lived on for ten seconds after its close', async () => {
    staged.note('r', object('a'));
    await passes(DOUBT_MS - 1);
    expect(named).toEqual([]);
    expect(staged.newest('r')?.file.push).toBe('a');
    await passes(1);
    expect(named).toEqual(['a']);
    expect(staged.newest('r')).toBeUndefined();
    expect([...staged.objects()]).toEqual([]);
  });

  it('gets it at once when nothing can make its close suspect anymore', async () => {
    staged.note('r', object('a', close('clean')));
    staged.note('s', object('b', close('unknown', 'rename')));
    staged.note('t', object('c', { ...close(), atMs: START_MS - DOUBT_MS }));
    await turn();
    expect(named).toEqual(['a', 'b', 'c']);
  });

  it('gets it when the task vouches for it, but no other path’s object does', async () => {
    staged.note('r', object('a'));
    staged.note('s', object('b'));
    staged.vouched('r');
    staged.vouched('unknown');
    await turn();
    expect(named).toEqual(['a']);
  });

  it('gets it when the task vouches for it after the signal to end', async () => {
    staged.signalled(START_MS);
    staged.note('r', object('a'));
    staged.vouched('r');
    await turn();
    expect(named).toEqual(['a']);
  });

  it('gets it only at the end of the task if it was closed after the signal', async () => {
    staged.note('before', object('a'));
    await passes(1);
    staged.signalled(Date.now());
    // Only the first signal counts.
    await passes(1);
    staged.signalled(Date.now());
    staged.note('after', object('b', { ...close(), atMs: START_MS + 1 }));
    await passes(10 * DOUBT_MS);
    expect(named).toEqual(['a']);
    staged.ended(() => false);
    await turn();
    expect(named).toEqual(['a', 'b']);
  });

  it('gets it when the task has ended, unless that makes its close suspect', async () => {
    for (const path of ['good', 'suspect']) staged.note(path, object(path));
    staged.ended((path) => path === 'suspect');
    await passes(10 * DOUBT_MS);
    expect(named).toEqual(['good']);
    expect([...staged.objects()].map(([path]) => path)).toEqual(['suspect']);
    expect(staged.due()).toEqual([]);
    await staged.settled(NEVER);
  });

  it('of a close after the end gets no name if the close is suspect, and its name otherwise', async () => {
    staged.ended((_, one) => one?.evidence === 'doubtful');
    staged.note('r', object('a'));
    staged.note('s', object('b', close('clean')));
    await passes(10 * DOUBT_MS);
    expect(named).toEqual(['b']);
  });

  it('is deleted once newer content has the name', async () => {
    const one = object('a');
    staged.note('r', one);
    expect(staged.has('r', one)).toBe(true);
    staged.named('r');
    expect(staged.has('r', one)).toBe(false);
    await passes(10 * DOUBT_MS);
    expect(named).toEqual([]);
  });
});

describe('several staged objects of one path', () => {
  it('each get the name when their own close is settled: further closes do not delay this', async () => {
    for (const push of ['a', 'b', 'c']) {
      staged.note('r', object(push));
      await passes(4000);
    }
    // The first at 10 s, the second at 14 s.
    expect(named).toEqual(['a']);
    expect(staged.newest('r')?.file.push).toBe('c');
    await passes(2000);
    expect(named).toEqual(['a', 'b']);
    await passes(4000);
    expect(named).toEqual(['a', 'b', 'c']);
  });

  it('give it only to the newest one that is settled', async () => {
    staged.note('r', object('a'));
    staged.note('r', object('b'));
    staged.note('r', object('c', { ...close(), atMs: START_MS + 1 }));
    await passes(DOUBT_MS);
    expect(named).toEqual(['b']);
    expect([...staged.objects()].map(([, { file }]) => file.push)).toEqual(['c']);
    await passes(1);
    expect(named).toEqual(['b', 'c']);
  });

  it('are all obsolete once a newer close has the name, even one that is settled before it', async () => {
    staged.note('r', object('a'));
    staged.note('r', object('b', close('clean')));
    await turn();
    expect(named).toEqual(['b']);
    await passes(10 * DOUBT_MS);
    expect(named).toEqual(['b']);
  });

  it('give it, at the end of the task, to the newest one that is not suspect', async () => {
    for (const push of ['a', 'b', 'torn']) {
      staged.note('r', object(push));
      await passes(1);
    }
    staged.ended((_, one) => (one?.atMs ?? 0) >= START_MS + 2);
    await turn();
    expect(named).toEqual(['b']);
    expect(staged.newest('r')?.file.push).toBe('torn');
  });

  it('give it to the newest one when the task vouches for all', async () => {
    staged.note('r', object('a'));
    staged.note('r', object('b'));
    staged.vouched('r');
    await passes(10 * DOUBT_MS);
    expect(named).toEqual(['b']);
  });
});

describe('a promotion', () => {
  const fails = (): Promise<void> => Promise.reject(new Error('it is down'));

  it('that fails is reported once, is retried after longer and longer pauses, and stays due meanwhile', async () => {
    let tries = 0;
    promotion = () => {
      tries += 1;
      return fails();
    };
    staged.note('r', object('a', close('clean')));
    await turn();
    expect(staged.due().map(({ file }) => file.push)).toEqual(['a']);
    await passes(999);
    expect(tries).toBe(1);
    await passes(1);
    expect(tries).toBe(2);
    await passes(1999);
    expect(tries).toBe(2);
    await passes(1);
    expect(tries).toBe(3);
    expect(told).toEqual(['r: Error: it is down']);
    promotion = () => Promise.resolve();
    await passes(4000);
    expect(named).toEqual(['a']);
    expect(staged.due()).toEqual([]);
  });

  it('that fails does not delay that of another path', async () => {
    promotion = (one) => (one.file.push === 'a' ? fails() : Promise.resolve());
    staged.note('r', object('a', close('clean')));
    staged.note('s', object('b', close('clean')));
    await turn();
    expect(named).toEqual(['b']);
  });

  it('is awaited on request, but only if its close is settled', async () => {
    const may = newDeferred<void>();
    promotion = () => may.promise;
    staged.note('doubted', object('a'));
    await staged.settled(NEVER);
    staged.note('r', object('b', close('clean')));
    let isSettled = false;
    const settled = staged.settled(NEVER).then(() => (isSettled = true));
    await turn();
    expect(isSettled).toBe(false);
    may.resolve();
    await settled;
    expect(named).toEqual(['b']);
  });

  it('is awaited only until the signal aborts', async () => {
    promotion = () => new Promise(() => undefined);
    staged.note('r', object('a', close('clean')));
    const stop = new AbortController();
    const settled = staged.settled(stop.signal);
    stop.abort();
    await settled;
    expect(staged.due()).toHaveLength(1);
  });

  it('is neither begun nor retried after the end of the run', async () => {
    const may = newDeferred<void>();
    promotion = () => may.promise;
    staged.note('r', object('a', close('clean')));
    staged.note('s', object('b'));
    await turn();
    staged.close();
    may.reject(new Error('given up'));
    await turn();
    expect(vi.getTimerCount()).toBe(0);
    await passes(10 * DOUBT_MS);
    expect(named).toEqual([]);
  });
});

describe('content may get the result’s own name at once', () => {
  it.each<[string, Close['evidence'], boolean]>([
    ['while nobody died', 'clean', true],
    ['not when a death may have closed it', 'doubtful', false],
    ['not when nobody can see who closes it', 'unknown', false],
  ])('%s', (_, evidence, expected) => {
    expect(staged.mayBeNamed('r', close(evidence))).toBe(expected);
  });

  it('after the signal to end, only if its close is clean', () => {
    staged.signalled(START_MS);
    const evidences = ['clean', 'doubtful', 'unknown'] as const;
    expect(evidences.map((one) => staged.mayBeNamed('r', close(one)))).toEqual([true, false, false]);
  });

  it('after the end of the task, if that end does not make it suspect', () => {
    staged.ended((path) => path === 'r');
    expect(staged.mayBeNamed('r', close('clean'))).toBe(false);
    expect(staged.mayBeNamed('s', close('doubtful'))).toBe(true);
  });
});
