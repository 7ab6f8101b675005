// What is kept beyond --generations, and which sets a death that comes to light marks: without a run, in time
// that the test makes.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Evidence } from '../../../src/model/file/evidence.ts';
import { newFileState } from '../../../src/model/file/file-state.ts';
import type { Generation, StoredFile } from '../../../src/model/format/records.ts';
import { markSuspect } from '../../../src/sidecar/checkpoints/generation-record.ts';
import { Spare } from '../../../src/sidecar/checkpoints/commits.ts';

const START_MS = 1_000_000;

beforeEach(() => vi.useFakeTimers({ now: START_MS }));
afterEach(() => vi.useRealTimers());

const generation = (number: number, ...keys: readonly string[]): Generation => ({
  attempt: 1,
  generation: number,
  at: new Date(START_MS + number).toISOString(),
  members: keys.map((key) => ({ path: 'k.chk', key }) as StoredFile),
  companions: [],
});

/** Two sets of a member that was closed now, in place, as a process ended, and one is wanted. */
function opened(evidence: Evidence) {
  let newest = 'k.2';
  const drop = vi.fn<() => void>();
  const fileState = {
    ...newFileState('k.chk', 'checkpoint', false),
    lastClose: { how: 'close' as const, atMs: START_MS, evidence },
  };
  const generations = [generation(2, 'k.2'), generation(1, 'k.1')];
  const parts = {
    context: { ledger: { generations }, settings: { generations: 1 }, now: () => Date.now() },
    files: { get: () => fileState },
    checkpoints: { newestOf: () => ({ key: newest }) },
  };
  return {
    spare: new Spare(parts as unknown as ConstructorParameters<typeof Spare>[0], drop),
    drop,
    generations,
    closeAgain: (key: string) => {
      newest = key;
    },
  };
}

it('a set is proven ten seconds after its last close, and then the older one is dropped', () => {
  const { spare, drop, generations } = opened('doubtful');
  spare.committed();
  expect(generations.map(spare.isProven)).toEqual([false, true]);
  vi.advanceTimersByTime(9999);
  expect(drop).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1);
  expect(drop).toHaveBeenCalledOnce();
  expect(generations.map(spare.isProven)).toEqual([true, true]);
});

it('a set is doubtful until the task has lived on for ten seconds, or has closed its files again', () => {
  const { spare, generations, closeAgain } = opened('doubtful');
  const [newest] = generations;
  if (newest === undefined) throw new Error('there is none');
  expect(spare.isDoubtful(newest)).toBe(true);
  closeAgain('k.3');
  expect(spare.isDoubtful(newest)).toBe(false);
  closeAgain('k.2');
  vi.advanceTimersByTime(10_000);
  expect(spare.isDoubtful(newest)).toBe(false);
});

it.each<[Evidence, boolean]>([
  ['clean', true],
  ['unknown', false],
])('a set whose closes are %s is never doubtful, and proven at once: %s', (evidence, atOnce) => {
  const { spare, generations } = opened(evidence);
  expect(generations.map(spare.isProven)).toEqual([atOnce, true]);
  expect(generations.some((one) => spare.isDoubtful(one))).toBe(false);
});

it('when a set is proven that says that it is not, it is looked at again', () => {
  const { spare, drop, generations } = opened('doubtful');
  generations.splice(0, 2, { ...generation(2, 'k.2'), unproven: true });
  spare.committed();
  vi.advanceTimersByTime(10_000);
  expect(drop).toHaveBeenCalledOnce();
});

it('after a signal to the task a set is proven by its end alone', () => {
  const { spare, drop, generations } = opened('doubtful');
  spare.signalled(START_MS);
  spare.committed();
  vi.advanceTimersByTime(60_000);
  expect(drop).not.toHaveBeenCalled();
  expect(generations.map(spare.isProven)).toEqual([false, true]);
  spare.endedWell();
  expect(generations.map(spare.isProven)).toEqual([true, true]);
});

it('every set with the object of a death is marked, none that was committed before its close', () => {
  let generations: readonly Generation[] = [
    generation(3, 'k.2', 'm.3'),
    generation(2, 'k.2', 'm.2'),
    generation(1, 'k.2'),
  ];
  const ledger = {
    get generations() {
      return generations;
    },
    setGenerations: (now: readonly Generation[]) => (generations = now),
  };
  const context = { ledger, log: { warn: vi.fn<() => void>() }, attempt: 1 } as unknown as Parameters<
    typeof markSuspect
  >[0];
  // A push that found nothing new names the object that was there before the close.
  markSuspect(context, new Map([['k.2', START_MS + 2]]));
  expect(generations.map(({ suspect }) => suspect)).toEqual([true, true, undefined]);
});
