// What this machine has, and has left: cores by affinity and cgroup, memory by cgroup and kernel, how much it waits for
// memory, its load. Tests have machines of their own.
import fs from 'node:fs';
import os from 'node:os';
import { cgroupCores, cgroupMemory, memoryPressure } from '../native/cgroup.ts';
import { addTree, type ProcessFacts } from '../native/proc-reader.ts';
import { type Memory, MemoryReader } from '../native/usage.ts';

export interface MachineNow {
  /** The least of MemAvailable and what the cgroup has left. */
  readonly availableBytes: number;
  /** PSI memory `full avg10`; 0 where the kernel has none. */
  readonly psiFullPercent: number;
  /** The load average of one minute (proc_loadavg(5)). */
  readonly load: number;
}

export interface ThisMachine {
  /** A quota may leave 1.5 of them. */
  readonly cores: number;
  /** The least of MemTotal and the cgroup's limit. */
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

/** MemAvailable of proc_meminfo(5): what programs can get without swapping. */
function availableBytes(): number {
  try {
    const kib = /^MemAvailable:\s+(\d+) kB$/m.exec(fs.readFileSync('/proc/meminfo', 'latin1'))?.[1];
    return kib === undefined ? os.freemem() : Number(kib) * 1024;
  } catch {
    return os.freemem();
  }
}

/** The memory of one process and of all below it, looked at again and again. */
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
