// node:v8: flags that capture sets for its own processes must not slow down this one, and its heap is not theirs.
export function setFlagsFromString(): void {}

export function getHeapStatistics(): { readonly heap_size_limit: number } {
  return { heap_size_limit: 256 * 1024 * 1024 };
}
