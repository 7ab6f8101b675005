// When the task's processes are looked at though nothing is closed.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { DueLooks, type Looked } from '../../src/watch/due-looks.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }));
afterEach(() => void vi.useRealTimers());

async function process3600(): Promise<ChildProcess> {
  const child = spawn('sleep', ['3600']);
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child, 'spawn');
  return child;
}

/** `at()`: the seconds at which looks were taken; each finds what `finds` says of that second. */
async function looks(finds: (second: number) => Partial<Looked> = () => ({})) {
  const child = await process3600();
  const taken: number[] = [];
  const startMs = performance.now();
  const look = (): void => {
    const second = Math.round((performance.now() - startMs) / 1000);
    taken.push(second);
    due.looked({ hasChanged: false, isRemote: false, pids: [child.pid ?? 0], ...finds(second) });
  };
  const due = new DueLooks(look);
  onTestFinished(() => due.close());
  return { child, look, at: (): readonly number[] => taken };
}

describe('a look that is due although nothing is closed', () => {
  it('comes less and less often while nothing changes: nine times in ten minutes', async () => {
    const { at } = await looks();
    vi.advanceTimersByTime(600_000);
    expect(at()).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 512]);
  });

  it('comes soon again after something has changed', async () => {
    const { at } = await looks((second) => ({ hasChanged: second === 16 }));
    vi.advanceTimersByTime(40_000);
    expect(at()).toEqual([2, 4, 8, 16, 18, 20, 24, 32]);
  });

  it('comes, after a look that a close caused, as late as nothing had changed before', async () => {
    const { at, look } = await looks();
    vi.advanceTimersByTime(30_000);
    look();
    vi.advanceTimersByTime(35_000);
    expect(at()).toEqual([2, 4, 8, 16, 30, 60]);
  });

  it.each<[string, Partial<Looked>]>([
    ['a daemon may start processes for the task', { isRemote: true }],
    ['the death of one of its processes cannot be heard', { pids: [2 ** 22 + 1] }],
  ])('comes every 2 s while %s', async (_, found) => {
    const { at } = await looks(() => found);
    vi.advanceTimersByTime(20_000);
    expect(at()).toEqual([2, 4, 6, 8, 10, 12, 14, 16, 18, 20]);
  });

  it('comes at once when a process of the task dies, and soon again', async () => {
    const { at, child } = await looks((second) => (second < 1000 ? {} : { pids: [] }));
    vi.advanceTimersByTime(1_000_000);
    const before = at().length;
    child.kill('SIGKILL');
    while (at().length === before) {
      await nextTurn();
      vi.advanceTimersByTime(0);
    }
    vi.advanceTimersByTime(5000);
    expect(at().slice(before)).toEqual([1000, 1002, 1004]);
  });
});
