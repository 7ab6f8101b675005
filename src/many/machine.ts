// What this machine has and what is free: cores by affinity and cgroup, memory by cgroup and kernel, memory pressure
// (PSI), and load. Tests have machines of their own.
import fs from 'node:fs';
import os from 'node:os';
import { cgroupCores, cgroupMemory, memoryPressure } from '../native/cgroup.ts';
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
    now: () => {
      const cgroup = cgroupMemory();
      const left = cgroup === undefined ? Infinity : cgroup.limit - cgroup.used;
      return {
        availableBytes: Math.max(0, Math.min(availableBytes(), left)),
        psiFullPercent: memoryPressure() ?? 0,
        load: os.loadavg()[0] ?? 0,
      };
    },
  };
}

/** MemAvailable of proc_meminfo(5): what programs can allocate without swapping. */
function availableBytes(): number {
  try {
    const kib = /^MemAvailable:\s+(\d+) kB$/m.exec(fs.readFileSync('/proc/meminfo', 'latin1'))?.[1];
    return kib === undefined ? os.freemem() : Number(kib) * 1024;
  } catch {
    return os.freemem();
  }
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
