// The field `outOfMemory` of the end in a record, and what it says. Pure.
import * as z from 'zod';
import { formatBytes, plural } from '../units.ts';

const bytes = z.int().nonnegative();

export const outOfMemorySchema = z.object({
  /** Processes that the kernel killed for lack of memory while the task ran. */
  kills: z.int().positive(),
  /** Of the cgroup that was full. Absent if that is unknown, or if the machine itself was full. */
  limitBytes: bytes.optional(),
  /** The most that this cgroup has ever used. */
  peakMemoryBytes: bytes.optional(),
  /** Other programs use the same memory, so a process of theirs may have been killed. */
  shared: z.literal(true).optional(),
});
export type OutOfMemory = Readonly<z.infer<typeof outOfMemorySchema>>;

/** How the task ended, and what the kernel killed meanwhile: a part of the record's `end`. */
export interface MemoryEnd {
  readonly code?: number | undefined;
  readonly signal?: string | undefined;
  readonly outOfMemory?: OutOfMemory | undefined;
}

/** A process of this task was killed for lack of memory: that is known, or at least probable. */
export function ranOutOfMemory({ outOfMemory, ...end }: MemoryEnd): boolean {
  return outOfMemory !== undefined && (outOfMemory.shared === undefined || wasKilled(end));
}

/** A shell passes SIGKILL on as 137. */
function wasKilled({ code, signal }: MemoryEnd): boolean {
  return signal === 'SIGKILL' || code === 137;
}

/**
 * `out of memory: the kernel killed 1 process of the task (limit 400.0 MiB, peak 400.0 MiB)`. If others use the same
 * memory, that is only probable, or possible. Undefined if the kernel killed nothing.
 */
export function outOfMemoryText({ outOfMemory, ...end }: MemoryEnd): string | undefined {
  if (outOfMemory === undefined) return undefined;
  const { kills, limitBytes, peakMemoryBytes, shared } = outOfMemory;
  const sure = shared === undefined ? '' : wasKilled(end) ? 'probably ' : 'perhaps ';
  const whose = shared === undefined ? 'the task' : 'this task, or of others that use the same memory';
  const sizes = [
    ...(limitBytes === undefined ? [] : [`limit ${formatBytes(limitBytes)}`]),
    ...(peakMemoryBytes === undefined ? [] : [`peak ${formatBytes(peakMemoryBytes)}`]),
  ];
  const numbers = sizes.length === 0 ? '' : ` (${sizes.join(', ')})`;
  return `${sure}out of memory: the kernel killed ${plural(kills, 'process')} of ${whose}${numbers}`;
}
