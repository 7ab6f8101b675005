// The look every 10 s, at this very process and at children of it that stand for the task. The time is the test's.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Resources, resourcesSchema, valuesOf } from '../../../src/model/format/resources.ts';
import { ResourceWatch } from '../../../src/sidecar/disk/resources.ts';
import { Shared } from '../../../src/sidecar/run/shared.ts';
import { until } from '../../e2e/support.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

const MIB = 2 ** 20;
const EVERY_MS = 10_000;

let nowMs = 0;
let dir: TestDir;
beforeEach(() => {
  nowMs = Date.parse('2026-11-22T12:00:00.000Z');
  dir = testDir();
});
afterEach(() => {
  vi.useRealTimers();
  dir.remove();
});

interface Watched {
  readonly watch: ResourceWatch;
  /** What the next record would say. */
  recorded(): Resources | undefined;
}

/** `launcher`: the process that the task is a child of; undefined: nobody knows it. */
function watched(launcher: number | undefined, usedBefore?: Resources): Watched {
  const ledger: ConstructorParameters<typeof ResourceWatch>[0]['ledger'] = { used: undefined };
  const use = new Shared({ isMany: false }).begin();
  const watch = new ResourceWatch(
    { root: dir, runToken: 'token-of-no-process', usedBefore, use, ledger, now: () => nowMs },
    launcher,
  );
  onTestFinished(() => watch.close());
  return { watch, recorded: () => ledger.used?.() };
}

/** A child of ours, which stands for the launcher, with a child that has so much memory. */
async function launcherOf(mib: number): Promise<number> {
  const perl = `$| = 1; $x = "x"; $x x= ${mib} << 20; while ((times)[0] < 0.1) {} print "ready\\n"; sleep 3600`;
  const child = spawn('bash', ['-c', `read go; perl -e '${perl}'; read stay`], {
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  });
  const { pid = 0 } = child;
  const ended = once(child, 'close');
  const end = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-pid, 'SIGKILL');
    await ended;
  };
  onTestFinished(end);
  ends.set(pid, end);
  starts.set(pid, async () => {
    child.stdin?.write('go\n');
    await once(child.stdout ?? child, 'data');
  });
  return pid;
}
const starts = new Map<number, () => Promise<void>>();
const ends = new Map<number, () => Promise<void>>();

/** Ends the child of this launcher, which waits for it. */
async function endTask(launcher: number): Promise<void> {
  const children = `/proc/${launcher}/task/${launcher}/children`;
  process.kill(Number(fs.readFileSync(children, 'utf8')), 'SIGKILL');
  await until(() => fs.readFileSync(children, 'utf8') === '', 'the end of the task');
}

describe('what a run uses', () => {
  it('is measured every 10 s, by one timer, however long nothing happens', () => {
    vi.useFakeTimers();
    const { watch, recorded } = watched(process.pid);
    watch.begin();
    for (let at = 0; at < 5; at += 1) {
      expect(vi.getTimerCount()).toBe(1);
      nowMs += EVERY_MS;
      vi.advanceTimersToNextTimer();
    }
    const used = recorded();
    expect(used?.stepS).toBe(10);
    // Steps of 10 s from the beginning: in the first one there was no look yet.
    expect(used === undefined ? [] : valuesOf(used, 'captureMemory')).toHaveLength(6);
    watch.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is recorded with the memory of the task, whose peak stays after its end', async () => {
    const launcher = await launcherOf(80);
    const { watch, recorded } = watched(launcher);
    expect(recorded()).not.toHaveProperty('task', expect.anything());
    await starts.get(launcher)?.();
    nowMs += EVERY_MS;
    watch.taskEnded(undefined);
    const used = resourcesSchema.parse(recorded());
    expect(valuesOf(used, 'taskMemory').at(-1)).toBeGreaterThan(80 * MIB);
    expect(used.task?.peakMemoryBytes).toBeGreaterThan(80 * MIB);
    expect(used.capture.peakMemoryBytes).toBeGreaterThan(10 * MIB);
  });

  it('has no memory of a task that has ended: nothing was measured', async () => {
    const launcher = await launcherOf(20);
    const { watch, recorded } = watched(launcher);
    await starts.get(launcher)?.();
    const isMeasured = (metric: 'taskMemory' | 'taskCpu'): readonly boolean[] =>
      valuesOf(recorded() as Resources, metric).map((value) => value !== undefined);
    nowMs += EVERY_MS;
    watch.taskEnded(undefined);
    await endTask(launcher);
    nowMs += EVERY_MS;
    watch.taskEnded(undefined);
    // What the launcher has waited for still counts.
    expect([isMeasured('taskMemory'), isMeasured('taskCpu')]).toEqual([
      [false, true, false],
      [false, true, true],
    ]);
    await ends.get(launcher)?.();
    nowMs += EVERY_MS;
    watch.taskEnded(undefined);
    expect([isMeasured('taskMemory'), isMeasured('taskCpu')]).toEqual([
      [false, true, false, false],
      [false, true, true, false],
    ]);
  });

  it('is, at the end, what the kernel has counted for the task, if that is more', async () => {
    const { watch, recorded } = watched(process.pid);
    watch.taskEnded({ cpuS: 12_345.5, maxRssBytes: 7000 * MIB });
    expect(recorded()?.task).toMatchObject({ cpuS: 12_345.5, peakMemoryBytes: 7000 * MIB });
  });

  it('continues from the records of a sidecar that died', async () => {
    const launcher = await launcherOf(20);
    const before: Resources = {
      task: { cpuS: 100, peakMemoryBytes: 5000 * MIB, readBytes: 1e9, writtenBytes: 2e9 },
      capture: { cpuS: 50, peakMemoryBytes: 100 * MIB },
      from: new Date(nowMs).toISOString(),
      stepS: 10,
      series: { taskMemory: { unit: MIB, mean: [5], max: [6] } },
    };
    const { watch, recorded } = watched(launcher, before);
    await starts.get(launcher)?.();
    nowMs += EVERY_MS;
    watch.taskEnded(undefined);
    const used = recorded();
    expect(used?.task?.cpuS).toBeGreaterThan(100);
    expect(used?.task).toMatchObject({ peakMemoryBytes: 5000 * MIB, readBytes: expect.any(Number) });
    expect(used?.task?.readBytes).toBeGreaterThan(1e9);
    expect(used?.capture.cpuS).toBeGreaterThan(50);
    expect(used === undefined ? [] : valuesOf(used, 'taskMemory')[0]).toBe(5 * MIB);
  });

  it('excludes a task whose processes are unknown', () => {
    const { watch, recorded } = watched(undefined);
    nowMs += EVERY_MS;
    watch.taskEnded(undefined);
    expect(recorded()?.task).toBeUndefined();
    expect(Object.keys(recorded()?.series ?? {})).toEqual(expect.not.arrayContaining(['taskMemory']));
    expect(recorded()?.capture.cpuS).toBeGreaterThan(0);
  });

  it('includes the used space of the file system of the work directory', () => {
    const { watch, recorded } = watched(undefined);
    nowMs += EVERY_MS;
    watch.taskEnded(undefined);
    const { blocks, bfree, bsize } = fs.statfsSync(dir.path);
    const [space] = recorded() === undefined ? [] : valuesOf(recorded() as Resources, 'space').slice(-1);
    expect((space ?? 0) / ((blocks - bfree) * bsize)).toBeCloseTo(1, 1);
  });
});
