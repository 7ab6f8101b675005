// Replaces src/native/memory.ts. Each schedule reuses the memory of the one before: getting so much from the kernel
// would take longer than all else.

/** By size in bytes. */
const pools = new Map<number, { readonly all: Uint8Array[]; used: number }>();

/** All memory that was given out is free again. */
export function takeMemoryBack(): void {
  for (const pool of pools.values()) pool.used = 0;
}

export function newMemory(bytes: number): Uint8Array {
  const pool = pools.get(bytes) ?? { all: [], used: 0 };
  pools.set(bytes, pool);
  const memory = (pool.all[pool.used] ??= new Uint8Array(bytes));
  pool.used += 1;
  return memory;
}

export function wholeMemory(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer);
}

export function releaseMemory(_bytes: Uint8Array): void {}
