// The resources that the run uses: every 10 s a look at the processes, the memory of the job, the load and the space,
// kept as totals, peaks and a series in every record. The only timer of an idle run; it makes no request.
import fs from 'node:fs';
import os from 'node:os';
import { errnoOf } from '../../model/errors.ts';
import { RESOURCES_LIMIT_BYTES, type Resources } from '../../model/format/resources.ts';
import type { Usage } from '../../model/format/messages.ts';
import type { OutOfMemory } from '../../model/format/out-of-memory.ts';
import { ResourceSeries, SAMPLE_EVERY_MS, type Sample } from '../../model/format/resource-series.ts';
import { heldPath } from '../../native/beneath.ts';
import { cgroupMemory } from '../../native/cgroup.ts';
import { fileSystemType, networkFileSystem } from '../../native/network-files.ts';
import { cpuOf, type Memory, MemoryReader, TaskUseReader } from '../../native/process-use.ts';
import type { Ledger } from '../../records/ledger.ts';
import type { Needs } from '../run/context.ts';

type ResourcesContext = Needs<'root' | 'runToken' | 'usedBefore' | 'use' | 'now'> & {
  readonly ledger: Pick<Ledger, 'used'>;
};

/** Early enough to see a short task, too. */
const FIRST_MS = 1000;
/** Looks take at most 1/1000 of the time, however many processes there are. */
const SHARE = 1000;

/** If samples were closer together, a clock tick of CPU time would look like a busy core. */
const SHORTEST_MS = 500;

/** Totals at the last sample of the series: rates cover the time since then. */
interface Mark {
  readonly atMs: number;
  readonly task: Resources['task'];
  readonly captureCpuS: number;
}

/** Begins with a look, so that what the launcher used before the task does not count as the task's. */
export class ResourceWatch {
  readonly #context: ResourcesContext;
  readonly #launcher: number | undefined;
  readonly #series: ResourceSeries;
  readonly #taskReader: TaskUseReader | undefined;
  readonly #sidecarMemory = new MemoryReader();
  readonly #launcherMemory = new MemoryReader();
  readonly #launcherCpuS: number;
  /** False for a file system that a whole cluster shares: its space says nothing about this run. */
  readonly #hasOwnSpace: boolean;
  #task: Resources['task'];
  #capture: Resources['capture'];
  #job: Resources['job'];
  #mark: Mark;
  #timer: NodeJS.Timeout | undefined;
  /** The last sample of the series. */
  now: Sample = {};
  /** Called after each look. */
  onLook: (() => void) | undefined;

  /**
   * Continues the totals of a sidecar that died. `launcher`: the pid of the process that the task descends from;
   * undefined if it is unknown which processes belong to the task.
   */
  constructor(context: ResourcesContext, launcher: number | undefined) {
    const { usedBefore: before, ledger } = context;
    const nowMs = context.now();
    this.#context = context;
    this.#launcher = launcher;
    this.#series = new ResourceSeries(nowMs, before);
    this.#task = before?.task;
    this.#capture = before?.capture ?? { cpuS: 0, peakMemoryBytes: 0 };
    this.#job = before?.job;
    this.#mark = { atMs: nowMs, task: this.#task, captureCpuS: this.#capture.cpuS };
    if (launcher !== undefined) {
      const { runToken: token } = context;
      this.#taskReader = new TaskUseReader({ launcher, self: process.pid, token });
      this.#taskReader.read();
    }
    this.#hasOwnSpace = networkFileSystem(fileSystemType(heldPath(context.root))) === undefined;
    this.#launcherCpuS = before === undefined ? 0 : this.#launcherCpu();
    ledger.used = () => this.resources;
  }

  begin(): void {
    this.#arm(FIRST_MS);
  }

  /**
   * The task has ended. `usage`: its resources as counted by the kernel; undefined if they were not queried. If the
   * kernel has killed for lack of memory, the cgroup's own peak counts: the samples may have missed it.
   */
  taskEnded(usage: Usage | undefined, outOfMemory?: OutOfMemory): void {
    if (usage !== undefined) this.#task ??= { cpuS: 0, peakMemoryBytes: 0 };
    this.#look();
    const { limitBytes, peakMemoryBytes: peak = limitBytes } = outOfMemory ?? {};
    if (limitBytes !== undefined && peak !== undefined)
      this.#job = { peakMemoryBytes: Math.max(this.#job?.peakMemoryBytes ?? 0, peak), limitBytes };
    if (usage === undefined || this.#task === undefined) return;
    const { cpuS, peakMemoryBytes } = this.#task;
    this.#task = {
      ...this.#task,
      cpuS: Math.max(cpuS, usage.cpuS),
      peakMemoryBytes: Math.max(peakMemoryBytes, usage.maxRssBytes),
    };
  }

  /** As of the last look. */
  get totals(): Pick<Resources, 'task' | 'capture' | 'job'> {
    return { task: this.#task, capture: this.#capture, job: this.#job };
  }

  /** The resources so far, for a record or the last line. */
  get resources(): Resources {
    for (;;) {
      const fields = { ...this.totals, ...this.#series.fields };
      if (JSON.stringify(fields).length <= RESOURCES_LIMIT_BYTES) return fields;
      this.#series.halve();
    }
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => {
      const startMs = performance.now();
      const before = process.cpuUsage();
      this.#look();
      this.onLook?.();
      const { user, system } = process.cpuUsage(before);
      // Each alone may exceed the time of the look: on a busy machine, or while other threads hash files.
      const tookMs = Math.min(performance.now() - startMs, (user + system) / 1000);
      this.#arm(Math.max(SAMPLE_EVERY_MS, tookMs * SHARE));
    }, ms).unref();
  }

  #look(): void {
    const atMs = this.#context.now();
    const taskMemory = this.#lookAtTask();
    const captureMemory = this.#lookAtCapture();
    const jobMemory = this.#lookAtJob();
    const { task: taskBefore, captureCpuS: captureBefore, atMs: beforeMs } = this.#mark;
    if (atMs - beforeMs < SHORTEST_MS) return;
    const rate = (now = 0, before = 0): number => ((now - before) * 1000) / (atMs - beforeMs);
    const ofTask =
      taskMemory === undefined
        ? {}
        : {
            taskCpu: rate(this.#task?.cpuS, taskBefore?.cpuS),
            // After the task's end there is no process whose memory could be measured.
            taskMemory: taskMemory.bytes === 0 ? undefined : taskMemory.bytes,
            taskRead: rate(this.#task?.readBytes, taskBefore?.readBytes),
            taskWritten: rate(this.#task?.writtenBytes, taskBefore?.writtenBytes),
          };
    const sample: Sample = {
      ...ofTask,
      jobMemory,
      captureCpu: rate(this.#capture.cpuS, captureBefore),
      captureMemory: captureMemory.bytes,
      load: os.loadavg()[0],
      space: this.#lookAtSpace(),
    };
    const highs = { taskMemory: taskMemory?.peakBytes, captureMemory: captureMemory.peakBytes };
    this.#series.add(atMs, sample, highs);
    this.now = sample;
    this.#mark = { atMs, task: this.#task, captureCpuS: this.#capture.cpuS };
  }

  #lookAtTask(): Memory | undefined {
    const use = this.#taskReader?.read();
    // Before the task starts, nothing counts as its.
    if (use === undefined || (this.#task === undefined && use.memory.bytes === 0)) return undefined;
    const before = this.#context.usedBefore?.task;
    // A process that ended without being waited for is no longer counted.
    this.#task = {
      cpuS: Math.max(this.#task?.cpuS ?? 0, (before?.cpuS ?? 0) + use.cpuS),
      readBytes: Math.max(this.#task?.readBytes ?? 0, (before?.readBytes ?? 0) + use.readBytes),
      writtenBytes: Math.max(this.#task?.writtenBytes ?? 0, (before?.writtenBytes ?? 0) + use.writtenBytes),
      peakMemoryBytes: Math.max(this.#task?.peakMemoryBytes ?? 0, use.memory.peakBytes),
    };
    return use.memory;
  }

  #lookAtCapture(): Memory {
    const { usedBefore: before, use } = this.#context;
    const ofLauncher = Math.max(0, this.#launcherCpu() - this.#launcherCpuS);
    const memory = this.#memoryOfCapture(use.memoryPart());
    this.#capture = {
      cpuS: Math.max(this.#capture.cpuS, (before?.capture.cpuS ?? 0) + use.cpuS() + ofLauncher),
      peakMemoryBytes: Math.max(this.#capture.peakMemoryBytes, memory.peakBytes),
    };
    return memory;
  }

  /** `part`: this run's part of the process. Memory that the process shares with others belongs to no single task. */
  #memoryOfCapture(part: number): Memory {
    const launcher = this.#launcher === undefined ? [] : [this.#launcher];
    if (part === 1) return this.#sidecarMemory.read([process.pid, ...launcher]);
    const ours = this.#sidecarMemory.read([process.pid]);
    const its = this.#launcherMemory.read(launcher);
    return {
      bytes: Math.round(ours.bytes * part) + its.bytes,
      peakBytes: Math.round(ours.peakBytes * part) + its.peakBytes,
    };
  }

  #lookAtJob(): number | undefined {
    const memory = cgroupMemory();
    if (memory === undefined) return undefined;
    const { used, limit: limitBytes } = memory;
    this.#job = { peakMemoryBytes: Math.max(this.#job?.peakMemoryBytes ?? 0, used), limitBytes };
    return used;
  }

  #lookAtSpace(): number | undefined {
    if (!this.#hasOwnSpace) return undefined;
    try {
      const { blocks, bfree, bsize } = fs.statfsSync(heldPath(this.#context.root));
      return (blocks - bfree) * bsize;
    } catch (error) {
      if (errnoOf(error) === undefined) throw error;
      return undefined; // Others find out what has become of it.
    }
  }

  #launcherCpu(): number {
    return this.#launcher === undefined ? 0 : cpuOf(this.#launcher);
  }
}
