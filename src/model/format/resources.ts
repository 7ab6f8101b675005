// The field `resources` of a record: what the task and capture have used, as totals, peaks and a short series. It is
// only recorded: no decision of capture depends on it.
import * as z from 'zod';
import { formatBytes, formatMs } from '../units.ts';

/** The lines of the series. Their units: bytes, bytes per second, cores, or the load average. */
export const METRICS = [
  'taskCpu',
  'taskMemory',
  'taskRead',
  'taskWritten',
  'jobMemory',
  'captureCpu',
  'captureMemory',
  'load',
  'space',
] as const;
export type Metric = (typeof METRICS)[number];

/** The text of the whole field has at most this many bytes, however long the run is. */
export const RESOURCES_LIMIT_BYTES = 4096;

const bytes = z.int().nonnegative();
const seconds = z.number().nonnegative();
/** One number for each step; null if nothing was measured. */
const steps = z.array(z.int().nonnegative().nullable());

const line = z.object({
  /** All numbers are multiples of this. */
  unit: z.number().positive(),
  mean: steps,
  max: steps,
});

export const resourcesSchema = z.object({
  /** The task's processes on this machine. Absent if capture does not know which they are (`capture watch`). */
  task: z
    .object({
      cpuS: seconds,
      peakMemoryBytes: bytes,
      /** By read(2) and write(2), from files, pipes and sockets alike. */
      readBytes: bytes.optional(),
      writtenBytes: bytes.optional(),
    })
    .optional(),
  /** The launcher and the sidecar. */
  capture: z.object({ cpuS: seconds, peakMemoryBytes: bytes }),
  /** The fullest cgroup with a limit that contains capture: a job, a pod. Absent if there is none. */
  job: z.object({ peakMemoryBytes: bytes, limitBytes: bytes }).optional(),
  /** When the first step begins. */
  from: z.iso.datetime(),
  stepS: z.number().positive(),
  series: z.partialRecord(z.enum(METRICS), line),
});
export type Resources = Readonly<z.infer<typeof resourcesSchema>>;

/** `peak memory of the task 59.9 MiB`, `CPU 1.5 s`: the second only if it is known. A task that was killed at once has none. */
export function usedWords({ peakMemoryBytes, cpuS }: NonNullable<Resources['task']>): readonly string[] {
  return [
    `peak memory of the task ${formatBytes(peakMemoryBytes)}`,
    ...(cpuS > 0 ? [`CPU ${formatMs(cpuS * 1000)}`] : []),
  ];
}

/** The values of one line, step by step; undefined where nothing was measured. */
export function valuesOf(
  { series }: Resources,
  metric: Metric,
  which: 'mean' | 'max' = 'mean',
): readonly (number | undefined)[] {
  const { [metric]: one } = series;
  return one === undefined ? [] : one[which].map((value) => (value === null ? undefined : value * one.unit));
}
