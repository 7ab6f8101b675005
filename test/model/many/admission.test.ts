import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  Admission,
  type Machine,
  type MachineState,
  captureBytes,
  mostAtOnce,
  type RunningTask,
  lowMemoryBytes,
  type TaskNeeds,
} from '../../../src/model/many/admission.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const MACHINE: Machine = { jobs: Infinity, cores: 8, memoryBytes: 16 * GIB };
const LEARNED: TaskNeeds = { cores: 1, memoryBytes: undefined };
const needing = (bytes: number, cores = 1): TaskNeeds => ({ cores, memoryBytes: bytes });

const runningTask = (task: Partial<RunningTask>): RunningTask => ({
  startedMs: 0,
  needs: LEARNED,
  usedBytes: 0,
  isEnding: false,
  ...task,
});
const at = (running: readonly RunningTask[], moment: Partial<MachineState> = {}): MachineState => ({
  nowMs: 0,
  availableBytes: 15 * GIB,
  running,
  ...moment,
});

/** Starts tasks for as long as one may, all at the same moment. */
const fill = (
  admission: Admission,
  needs: TaskNeeds,
  moment: MachineState = at([]),
): { readonly running: readonly RunningTask[]; readonly why: unknown } => {
  const running = [...moment.running];
  for (;;) {
    const verdict = admission.ask(needs, { ...moment, running });
    if (verdict.kind !== 'start') return { running, why: verdict };
    running.push(runningTask({ startedMs: moment.nowMs, needs }));
  }
};

describe('as many tasks run at once', () => {
  it('as there are jobs', () => {
    const { running, why } = fill(new Admission({ ...MACHINE, jobs: 3 }), needing(MIB));
    expect([running.length, why]).toEqual([3, { kind: 'wait', why: 'jobs', untilMs: undefined }]);
  });

  it.each([
    [1, 8],
    [3, 2],
    [0.1, 80],
  ])('as there are cores: each %d', (cores, count) => {
    const { running, why } = fill(
      new Admission({ ...MACHINE, memoryBytes: 999 * GIB }),
      needing(MIB, cores),
      {
        ...at([]),
        availableBytes: 900 * GIB,
      },
    );
    expect([running.length, why]).toEqual([count, { kind: 'wait', why: 'cores', untilMs: undefined }]);
  });

  it('as fit into its memory, with what is kept for capture', () => {
    const { running, why } = fill(new Admission(MACHINE), needing(4 * GIB));
    expect([running.length, why]).toEqual([3, { kind: 'wait', why: 'memory', untilMs: undefined }]);
  });

  it('as fit into what other programs leave of it, also what those that run have not taken yet', () => {
    const running = [
      runningTask({ needs: needing(4 * GIB), usedBytes: 3 * GIB }),
      runningTask({ needs: needing(4 * GIB), usedBytes: GIB }),
    ];
    const moment = (availableBytes: number): MachineState => at(running, { availableBytes });
    const admission = new Admission(MACHINE);
    expect(admission.ask(needing(GIB), moment(6 * GIB)).kind).toBe('start');
    expect(admission.ask(needing(GIB), moment(5 * GIB)).kind).toBe('wait');
  });

  it('one alone on half a core', () => {
    expect(fill(new Admission({ ...MACHINE, cores: 0.5 }), needing(MIB)).running.length).toBe(1);
  });
});

describe('a task that never fits', () => {
  it('is told with what it needs and what there is', () => {
    const admission = new Admission(MACHINE);
    const hasBytes = 16 * GIB - captureBytes(1) - lowMemoryBytes(16 * GIB);
    expect(admission.ask(needing(MIB, 9), at([]))).toEqual({
      kind: 'never',
      what: 'cores',
      needs: 9,
      has: 8,
    });
    expect(admission.ask(needing(16 * GIB), at([]))).toEqual({
      kind: 'never',
      what: 'memory',
      needs: 16 * GIB,
      has: hasBytes,
    });
    expect(admission.ask(needing(hasBytes), at([])).kind).toBe('start');
  });

  it('is tried alone if nobody said what it needs', () => {
    const admission = new Admission(MACHINE);
    admission.ended(20 * GIB);
    const { running } = fill(admission, LEARNED);
    expect(running.length).toBe(1);
  });
});

describe('what a task needs is learned', () => {
  it('alone at first, then by as many more as are known, until the memory is full', () => {
    const admission = new Admission({ ...MACHINE, cores: 64 });
    let running: readonly RunningTask[] = [];
    const counts: number[] = [];
    for (let nowMs = 0; nowMs <= 60_000; nowMs += 10_000) {
      const { running: more, why } = fill(admission, LEARNED, at(running, { nowMs }));
      running = more.map((task) => ({ ...task, usedBytes: 500 * MIB }));
      counts.push(running.length);
      if (nowMs === 0) expect(why).toEqual({ kind: 'wait', why: 'learning', untilMs: 10_000 });
      if (nowMs === 60_000) expect(why).toEqual({ kind: 'wait', why: 'memory', untilMs: undefined });
    }
    // Each 600 MiB and its launcher, of 15,436.
    expect(counts).toEqual([1, 2, 4, 8, 16, 25, 25]);
  });

  it('from the first that ends: then as many start as fit', () => {
    const admission = new Admission(MACHINE);
    admission.ended(GIB);
    expect(admission.learnedBytes()).toBe(Math.ceil(GIB * 1.2));
    expect(fill(admission, LEARNED).running.length).toBe(8);
  });

  it('from the largest, also of one that still runs', () => {
    const admission = new Admission(MACHINE);
    admission.ended(GIB);
    const grown = runningTask({ usedBytes: 5 * GIB });
    expect(admission.ask(LEARNED, at([grown, runningTask({ usedBytes: GIB })])).kind).toBe('wait');
    expect(admission.learnedBytes()).toBe(6 * GIB);
  });

  it('never from those that say what they need', () => {
    const admission = new Admission(MACHINE);
    admission.ask(LEARNED, at([runningTask({ needs: needing(4 * GIB), usedBytes: 4 * GIB })]));
    expect(admission.learnedBytes()).toBeUndefined();
  });
});

it('what tasks are promised never exceeds what the machine has for them, but for one that runs alone', () => {
  const task = fc.record({
    bytes: fc.option(
      fc.integer({ min: 1, max: 6000 }).map((mib) => mib * MIB),
      { nil: undefined },
    ),
    cores: fc.constantFrom(0.5, 1, 2, 4),
    usedMib: fc.integer({ min: 1, max: 5000 }),
    endsFirst: fc.nat(3),
  });
  fc.assert(
    fc.property(fc.array(task, { maxLength: 60 }), fc.integer({ min: 300, max: 32_000 }), (tasks, mib) => {
      const machine: Machine = { jobs: 12, cores: 8, memoryBytes: mib * MIB };
      const admission = new Admission(machine);
      let running: readonly RunningTask[] = [];
      for (const [index, { bytes, cores, usedMib, endsFirst }] of tasks.entries()) {
        for (const { needs, usedBytes } of running.slice(0, endsFirst))
          if (needs.memoryBytes === undefined) admission.ended(usedBytes);
        running = running.slice(endsFirst);
        const needs = { cores, memoryBytes: bytes };
        const used = running.reduce((sum, one) => sum + one.usedBytes, 0);
        const availableBytes = Math.max(0, machine.memoryBytes - used);
        const verdict = admission.ask(needs, { nowMs: index * 1000, availableBytes, running });
        if (verdict.kind !== 'start') continue;
        // Those that say what they need keep to it.
        const usedBytes = Math.min(usedMib * MIB, bytes ?? Infinity);
        const one = runningTask({ startedMs: index * 1000, needs, usedBytes: 0 });
        running = [...running, one];
        const promised = running.map((one) => one.needs.memoryBytes ?? admission.learnedBytes() ?? 0);
        const sum = promised.reduce((a, b) => a + b, 0);
        expect(running.length).toBeLessThanOrEqual(12);
        expect(running.reduce((a, one) => a + one.needs.cores, 0)).toBeLessThanOrEqual(8);
        if (running.length > 1 || bytes !== undefined)
          expect(
            sum + captureBytes(running.length) + lowMemoryBytes(machine.memoryBytes),
          ).toBeLessThanOrEqual(machine.memoryBytes);
        running = [...running.slice(0, -1), { ...one, usedBytes }];
      }
    }),
  );
});

it.each([
  ['--jobs', needing(GIB), { jobs: 3 }, { tasks: 3, by: 'jobs' }],
  ['--jobs, if the machine has room for just as many', needing(GIB), { jobs: 8 }, { tasks: 8, by: 'jobs' }],
  ['cores', needing(GIB, 3), { jobs: 5 }, { tasks: 2, by: 'cores' }],
  ['memory', needing(4 * GIB), { jobs: 5 }, { tasks: 3, by: 'memory' }],
  ['cores, if the memory is not known', LEARNED, {}, { tasks: 8, by: 'cores' }],
  ['a share of a core', needing(GIB, 0.1), { cores: 0.3 }, { tasks: 10, by: 'cores' }],
])('knows beforehand how many run at once, limited by %s', (_, needs, machine, most) => {
  expect(mostAtOnce(needs, { ...MACHINE, ...machine })).toEqual(most);
  const admission = new Admission({ ...MACHINE, ...machine });
  admission.ended(MIB);
  const running: RunningTask[] = [];
  while (admission.ask(needs, at(running)).kind === 'start') running.push(runningTask({ needs }));
  expect(running).toHaveLength(most.tasks);
});
