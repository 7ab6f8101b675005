// The zstd library itself, through zstd-napi's low-level binding: only that can put the content size into a frame that
// is made piece by piece. The package is optional: a start never fails without it.
import type * as Binding from 'zstd-napi/binding.js';
import { loadBinary } from './binary.ts';

export type Zstd = typeof Binding;

/** What to do if neither the binding nor Node has zstd. */
export const NO_ZSTD_HINT = `run with Node 22.15 or newer (this is ${process.versions.node}), or install zstd-napi beside capture`;

/** The binding; undefined if no binary fits this machine. */
export function loadZstd(): Zstd | undefined {
  try {
    return loadBinary('zstd-napi') as Zstd;
  } catch {
    return undefined;
  }
}
