import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RunningTask } from '../../../src/model/many/admission.ts';
import { MemoryGuard, type MemoryState } from '../../../src/model/many/guard.ts';

const GIB = 2 ** 30;
/** Short below 1 GiB, at ease from 2 GiB on. */
const LIMIT_BYTES = 20 * GIB;
interface Task extends RunningTask {
  readonly index: number;
}
const taskOf = (index: number, task: Partial<Task> = {}): Task => ({
  index,
  startedMs: index,
  needs: { cores: 1, memoryBytes: undefined },
  usedBytes: 5 * GIB,
  isEnding: false,
  ...task,
});
const momentOf = (nowMs: number, availableGib: number, psiFullPercent = 0): MemoryState => ({
  nowMs,
  availableBytes: availableGib * GIB,
  limitBytes: LIMIT_BYTES,
  psiFullPercent,
});
const CALM = { kind: 'calm' };
const HOLD = { kind: 'hold' };
const giveBack = (index: number): unknown => ({
  kind: 'give-back',
  one: expect.objectContaining({ index }) as unknown,
});

describe('when memory runs short', () => {
  it('the youngest goes, by its start and not by its index', () => {
    const running = [
      taskOf(1, { startedMs: 50 }),
      taskOf(2, { startedMs: 70 }),
      taskOf(3, { startedMs: 60 }),
    ];
    const guard = new MemoryGuard();
    expect(guard.look(momentOf(0, 3), running)).toEqual(CALM);
    expect(guard.look(momentOf(1000, 0.9), running)).toEqual(giveBack(2));
  });

  it('so it does when all stand still for memory, though some is left; a stall with enough left is of the disk', () => {
    const running = [taskOf(1), taskOf(2)];
    expect(new MemoryGuard().look(momentOf(0, 1.9, 10), running)).toEqual(giveBack(2));
    expect(new MemoryGuard().look(momentOf(0, 1.9, 9), running)).toEqual(CALM);
    expect(new MemoryGuard().look(momentOf(0, 2, 99), running)).toEqual(CALM);
  });

  it('none is started until it has eased, and none more goes on the way there', () => {
    const running = [taskOf(1), taskOf(2)];
    const guard = new MemoryGuard();
    expect(guard.look(momentOf(0, 0.9), [...running, taskOf(3)])).toEqual(giveBack(3));
    expect(guard.look(momentOf(60_000, 1.1), running)).toEqual(HOLD);
    expect(guard.look(momentOf(61_000, 1.9), running)).toEqual(HOLD);
    expect(guard.look(momentOf(62_000, 2), running)).toEqual(CALM);
    expect(guard.look(momentOf(63_000, 1.1), running)).toEqual(CALM);
  });

  it('the next goes only when the one before is gone, and some time has passed', () => {
    const running = [taskOf(1), taskOf(2)];
    const guard = new MemoryGuard();
    expect(guard.look(momentOf(0, 0.9), [...running, taskOf(3)])).toEqual(giveBack(3));
    expect(guard.look(momentOf(60_000, 0.9), [...running, taskOf(3, { isEnding: true })])).toEqual(HOLD);
    expect(guard.look(momentOf(61_000, 0.9), running)).toEqual(giveBack(2));
    expect(new MemoryGuard().look(momentOf(0, 0.9), running)).toEqual(giveBack(2));
    expect(guard.look(momentOf(62_000, 0.9), [...running, taskOf(4)])).toEqual(HOLD);
    expect(guard.look(momentOf(66_000, 0.9), [...running, taskOf(4)])).toEqual(giveBack(4));
  });

  it('the next goes before the one before is gone if hardly anything is left', () => {
    const running = [taskOf(1), taskOf(2), taskOf(3)];
    const guard = new MemoryGuard();
    expect(guard.look(momentOf(0, 0.4), running)).toEqual(giveBack(3));
    const next = [taskOf(1), taskOf(2), taskOf(3, { isEnding: true })];
    expect(guard.look(momentOf(4000, 0.4), next)).toEqual(HOLD);
    expect(guard.look(momentOf(5000, 0.4), next)).toEqual(giveBack(2));
  });
});

describe('the last one that runs', () => {
  it('stays as long as something is left', () => {
    expect(new MemoryGuard().look(momentOf(0, 0.6), [taskOf(1, { usedBytes: 19 * GIB })])).toEqual(HOLD);
  });

  it('is too large if it alone has used up the memory', () => {
    const task = taskOf(1, { usedBytes: 19 * GIB });
    expect(new MemoryGuard().look(momentOf(0, 0.4), [task])).toEqual({ kind: 'too-large', one: task });
  });

  it('is not to blame for what other programs use, nor for one that is about to go, nor when it ends already', () => {
    const large = taskOf(1, { usedBytes: 19 * GIB });
    expect(new MemoryGuard().look(momentOf(0, 0.4), [taskOf(1)])).toEqual(HOLD);
    expect(new MemoryGuard().look(momentOf(0, 0.4), [large, taskOf(2, { isEnding: true })])).toEqual(HOLD);
    expect(new MemoryGuard().look(momentOf(0, 0.4), [{ ...large, isEnding: true }])).toEqual(HOLD);
    expect(new MemoryGuard().look(momentOf(0, 0), [])).toEqual(HOLD);
  });

  it('is never given back, whatever the figures; and whoever goes is the youngest of those that stay', () => {
    const figures = fc.array(
      fc.record({
        stepMs: fc.integer({ min: 1, max: 8000 }),
        availableGib: fc.double({ min: 0, max: 3, noNaN: true }),
        psi: fc.nat(100),
        what: fc.constantFrom('start', 'end', 'gone', 'none'),
      }),
      { maxLength: 80 },
    );
    fc.assert(
      fc.property(figures, (some) => {
        const guard = new MemoryGuard();
        let running: readonly Task[] = [];
        let nowMs = 0;
        for (const [index, { stepMs, availableGib, psi, what }] of some.entries()) {
          nowMs += stepMs;
          if (what === 'start') running = [...running, taskOf(index, { startedMs: nowMs })];
          if (what === 'end') running = running.slice(1);
          if (what === 'gone') running = running.filter(({ isEnding }) => !isEnding);
          const staying = running.filter(({ isEnding }) => !isEnding);
          const verdict = guard.look(momentOf(nowMs, availableGib, psi), running);
          if (verdict.kind === 'too-large') expect(running).toEqual([verdict.one]);
          if (verdict.kind !== 'give-back') continue;
          expect(staying.length).toBeGreaterThan(1);
          expect(staying.at(-1)).toBe(verdict.one);
          running = running.map((task) => (task === verdict.one ? { ...task, isEnding: true } : task));
        }
      }),
    );
  });
});
