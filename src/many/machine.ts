// What this machine has and what is free: cores by affinity and cgroup, memory by cgroup and kernel, memory pressure
// (PSI), and load. Tests have machines of their own.
import os from 'node:os';
import { cgroupCores, cgroupMemory, memoryPressure } from '../native/cgroup.ts';
import { availableMemoryBytes } from '../native/available-memory.ts';
import { addTree, type ProcessFacts } from '../native/proc-reader.ts';
import { type Memory, MemoryReader } from '../native/process-use.ts';

export interface MachineNow {
  /** The smaller of MemAvailable and what the cgroup has left. */
  readonly availableBytes: number;
  /** PSI memory `full avg10`; 0 if the kernel has no PSI. */
  readonly psiFullPercent: number;
  /** The load average of one minute (proc_loadavg(5)). */
  readonly load: number;
}

export interface ThisMachine {
  /** May be a fraction: a CPU quota may allow 1.5 cores. */
  readonly cores: number;
  /** The smaller of MemTotal and the cgroup's limit. */
  readonly memoryBytes: number;
  now(): MachineNow;
}

export function thisMachine(): ThisMachine {
  return {
    cores: Math.min(os.availableParallelism(), cgroupCores()),
    memoryBytes: Math.min(os.totalmem(), cgroupMemory()?.limit ?? Infinity),
    now: () => ({
      availableBytes: availableMemoryBytes(),
      psiFullPercent: memoryPressure() ?? 0,
      load: os.loadavg()[0] ?? 0,
    }),
  };
}

/** The memory of one process and all its descendants, for repeated reads. */
export class MemoryBelow {
  readonly #root: number;
  readonly #memory = new MemoryReader();

  constructor(root: number) {
    this.#root = root;
  }

  read(): Memory {
    const found = new Map<number, ProcessFacts>();
    addTree(found, this.#root);
    return this.#memory.read([...found.keys()]);
  }
}
