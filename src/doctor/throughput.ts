// Throughput to the store: one object after the other, each larger than the last, until one took long enough to
// measure. Random bytes, which nothing on the path can compress.
import { randomBytes, randomUUID } from 'node:crypto';
import { formatBytes, formatMs } from '../model/units.ts';
import type { Store } from '../store/contract/store.ts';
import { type Finding, ok, warn } from './finding.ts';

interface ThroughputOptions {
  readonly key: string;
  /** Of the objects, ascending. */
  readonly sizesBytes: readonly number[];
  readonly graceMs: number;
  readonly signal: AbortSignal;
}

const MiB = 2 ** 20;
/** One part, two, eight: the large ones are sent like a run's large files. */
export const SIZES_BYTES: readonly number[] = [MiB, 16 * MiB, 64 * MiB];
const PART_BYTES = 8 * MiB;
/** Long enough for a measurement. */
const ENOUGH_MS = 1000;
/** So slow that no grace is long enough for a checkpoint of some size. */
const SLOW_BYTES_PER_S = MiB;

export async function measure(store: Store, way: ThroughputOptions): Promise<Finding> {
  let sent = { bytes: 0, ms: Infinity };
  const part = randomBytes(PART_BYTES);
  for (const bytes of way.sizesBytes) {
    sent = { bytes, ms: await msOf(() => put(store, part, bytes, way)) };
    // The next object is at least four times as large.
    if (sent.ms > ENOUGH_MS) break;
  }
  const received = { bytes: sent.bytes, ms: await msOf(() => read(store, sent.bytes, way)) };
  const [up, down] = [speedOf(sent), speedOf(received)];
  const inGrace = formatBytes(Math.round((up * way.graceMs) / 1000));
  const says =
    `sends ${formatBytes(Math.round(up))}/s, receives ${formatBytes(Math.round(down))}/s (one object of ` +
    `${formatBytes(sent.bytes)}); ${inGrace} can be sent in a grace of ${formatMs(way.graceMs)}`;
  const facts = { sentBytesPerS: Math.round(up), receivedBytesPerS: Math.round(down) };
  if (up >= SLOW_BYTES_PER_S) return ok('throughput', says, facts);
  return warn('throughput', says, 'keep what must be sent small, or ask for more time (--grace)', facts);
}

async function msOf(act: () => Promise<void>): Promise<number> {
  const startMs = performance.now();
  await act();
  return performance.now() - startMs;
}

function speedOf({ bytes, ms }: { readonly bytes: number; readonly ms: number }): number {
  return (bytes / Math.max(1, ms)) * 1000;
}

async function put(
  store: Store,
  part: Uint8Array,
  bytes: number,
  { key, signal }: ThroughputOptions,
): Promise<void> {
  const body = bytes <= part.length ? part.subarray(0, bytes) : repeated(part, bytes);
  await store.put(key, body, { meta: { push: randomUUID() }, signal });
}

async function* repeated(part: Uint8Array, bytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes; at += part.length) yield part.subarray(0, bytes - at);
}

async function read(store: Store, bytes: number, { key, signal }: ThroughputOptions): Promise<void> {
  const got = await store.get(key, { range: { first: 0, last: bytes - 1 }, signal });
  for await (const _ of got?.body ?? []) signal.throwIfAborted();
}
