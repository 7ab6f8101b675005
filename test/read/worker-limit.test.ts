import { describe, expect, it } from 'vitest';
import { WorkerLimit } from '../../src/read/worker-limit.ts';

/** How many of the workers may begin at one moment, with so many idle cores that the kernel sees no change yet. */
function begun(count: number | 'auto', idleCores: number): number {
  const lanes = new WorkerLimit(count, () => idleCores);
  return Array.from({ length: lanes.most }, (_, n) => takes(lanes, n)).filter((may) => may).length;
}

function takes(lanes: WorkerLimit, n: number): boolean {
  const may = lanes.allows(n);
  if (may) lanes.started();
  return may;
}

describe('auto', () => {
  it.each([
    [0, 2],
    [1, 2],
    [2, 2],
    [6, 3],
    [7, 3],
    [8, 4],
    [64, 4],
  ])('with %i idle cores begins with %i files at once', (idleCores, most) => {
    expect(begun('auto', idleCores)).toBe(most);
  });

  it('does not check while two are enough', () => {
    let looks = 0;
    const lanes = new WorkerLimit('auto', () => (looks += 1));
    for (let files = 0; files < 10; files += 1) for (const n of [0, 1]) expect(takes(lanes, n)).toBe(true);
    expect(looks).toBe(0);
    takes(lanes, 2);
    expect(looks).toBe(1);
  });
});

it.each([
  [1, 1],
  [2, 2],
  [16, 16],
])('%i are %i, however busy the machine is', (count, most) => {
  expect(begun(count, 0)).toBe(most);
});

describe('auto, of several tasks', () => {
  const begunBy = (tasks: number, idleCores: number): number => {
    const lanes = new WorkerLimit('auto', () => idleCores, true);
    lanes.tasks = tasks;
    return Array.from({ length: lanes.most }, (_, n) => takes(lanes, n)).filter((may) => may).length;
  };
  it.each([
    [1, 0, 2],
    [1, 64, 4],
    [2, 0, 3],
    [3, 0, 4],
    [100, 0, 4],
    [100, 64, 8],
  ])('%i with %i idle cores begin with %i files at once', (tasks, idleCores, most) => {
    expect(begunBy(tasks, idleCores)).toBe(most);
  });
});
