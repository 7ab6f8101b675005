// The zstd library itself, through zstd-napi's low-level binding: the only way to put the content size into a
// frame that is made piece by piece. An optional package: never a reason not to start.
import type * as Binding from 'zstd-napi/binding.js';
import { loadBinary } from './binary.ts';

export type Zstd = typeof Binding;

/** What to do where neither the binding nor Node itself has zstd. */
export const NO_ZSTD_HINT = `run with Node 22.15 or newer (this is ${process.versions.node}), or install zstd-napi beside capture`;

/** The binding, or undefined where no binary fits this machine. */
export function loadZstd(): Zstd | undefined {
  try {
    return loadBinary('zstd-napi') as Zstd;
  } catch {
    return undefined;
  }
}
