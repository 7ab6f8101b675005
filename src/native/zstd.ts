// The zstd library itself, through zstd-napi's low-level binding: the only way to put the content size into a
// frame that is made piece by piece. Never a reason not to start: where it cannot be loaded, there is none.
import type * as Binding from 'zstd-napi/binding.js';

export type Zstd = typeof Binding;

/** The binding, or undefined where no binary fits this machine. */
export async function loadZstd(): Promise<Zstd | undefined> {
  try {
    // A CommonJS module with computed exports: they stand on the default export only.
    return ((await import('zstd-napi/binding.js')) as unknown as { readonly default: Zstd }).default;
  } catch {
    return undefined;
  }
}
