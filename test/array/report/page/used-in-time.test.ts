import { expect, it } from 'vitest';
import type { AttemptRow, Used } from '../../../../src/array/report/data.ts';
import { usedInTime } from '../../../../src/array/report/page/used-in-time.ts';

const ran = (used: Used | undefined): AttemptRow => ({
  attempt: 1,
  from: 0,
  ran: 30,
  kept: 0,
  end: 'done',
  host: 0,
  how: 0,
  used,
});
const of = (
  values: readonly (number | null)[],
  unit = 1,
): { unit: number; values: readonly (number | null)[] } => ({
  unit,
  values,
});

it('ends with the last sample: nothing is drawn after it, and nothing where nothing was measured', () => {
  const used = {
    from: 100,
    step: 10,
    lines: { taskMemory: of([2, 3, null, null], 4), taskCpu: of([1, 2, 1, null]) },
  };
  expect(usedInTime([ran(used)])).toEqual({
    times: [100, 110, 120],
    lines: { taskMemory: [8, 12, null], taskCpu: [1, 2, 1] },
  });
});

it('has a gap between two attempts, each at its own time', () => {
  const first = { from: 100, step: 10, lines: { taskMemory: of([1, 2]) } };
  const second = { from: 115, step: 80, lines: { taskMemory: of([3, 4]), space: of([5, 5]) } };
  expect(usedInTime([ran(first), ran(undefined), ran(second)])).toEqual({
    times: [100, 110, 111, 115, 195],
    lines: { taskMemory: [1, 2, null, 3, 4], space: [null, null, null, 5, 5] },
  });
});

it('ascends although the clock of the second machine is behind', () => {
  const used = (from: number): Used => ({ from, step: 10, lines: { space: of([1, 1]) } });
  expect(usedInTime([ran(used(100)), ran(used(50))]).times).toEqual([100, 110, 111, 112, 113]);
});

it('is empty where nothing was measured', () => {
  const used = { from: 100, step: 10, lines: { taskMemory: of([null]) } };
  expect(usedInTime([ran(used), ran(undefined)])).toEqual({ times: [], lines: {} });
});
