// How much memory programs can still get here.
import fs from 'node:fs';
import os from 'node:os';
import { cgroupMemory } from './cgroup.ts';

/** Bytes: the smaller of MemAvailable and what the fullest cgroup that holds us has left. */
export function availableMemoryBytes(): number {
  const cgroup = cgroupMemory();
  const left = cgroup === undefined ? Infinity : cgroup.limit - cgroup.used;
  return Math.max(0, Math.min(ofMachine(), left));
}

/** MemAvailable of proc_meminfo(5): what programs can allocate without swapping. */
function ofMachine(): number {
  try {
    const kib = /^MemAvailable:\s+(\d+) kB$/m.exec(fs.readFileSync('/proc/meminfo', 'latin1'))?.[1];
    return kib === undefined ? os.freemem() : Number(kib) * 1024;
  } catch {
    return os.freemem();
  }
}
