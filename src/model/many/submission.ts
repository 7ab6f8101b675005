// The contents of the queue: a submission, shared by all its tasks, and one job for each index. The format is
// numbered, because workers of several versions may read it. Everything from Redis is validated here before it is
// used.
import * as z from 'zod';
import { showPath } from '../path.ts';

/** Raised when an older worker could no longer run a submission correctly. */
export const QUEUE_FORMAT = 1;

/** A name in Redis keys, in commands and in messages: `melt-7`. BullMQ forbids the colon. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
export function isSubmissionName(text: string): boolean {
  return NAME.test(text);
}

/** A capability of a machine: `gpu`, `openfoam-11`. */
export function isCapability(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);
}

const halt = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('never') }),
  z.object({
    kind: z.enum(['soon', 'now']),
    fail: z.discriminatedUnion('kind', [
      z.object({ kind: z.literal('count'), count: z.int().positive() }),
      z.object({ kind: z.literal('percent'), percent: z.number().positive() }),
    ]),
  }),
]);

const notifyTarget = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('url'), url: z.string() }),
  z.object({ kind: z.literal('command'), command: z.string() }),
]);

const command = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('argv'), argv: z.array(z.string()).min(1) }),
  z.object({ kind: z.literal('shell'), text: z.string() }),
]);

const range = z.object({ first: z.int().min(0), last: z.int().min(0), step: z.int().positive() });

const submission = z.object({
  format: z.literal(QUEUE_FORMAT),
  name: z.string().regex(NAME),
  taskName: z.string().min(1),
  /** All its indices, done or not. */
  indices: z.object({ ranges: z.array(range) }),
  size: z.int().positive(),
  /**
   * As the user wrote it, with its placeholders. Undefined: each job has its own command, a line of a file of
   * commands.
   */
  command: command.optional(),
  /** The command or the columns of each task are stored only in its job. */
  jobsHoldTask: z.boolean(),
  /** capture's options for each run; the store is absolute. */
  options: z.array(z.string()),
  store: z.object({ url: z.string(), flags: z.array(z.string()), unfenced: z.boolean() }),
  /** Only what was stored under it counts: then each run must look at its own records. */
  runId: z.string().optional(),
  preemptedStatus: z.int(),
  /** The task itself may ask to run again (--again-status, --done-when). */
  mayAskAgain: z.boolean(),
  /** The directory of `capture submit`: tasks find it in CAPTURED_SUBMIT_DIR. */
  cwd: z.string(),
  capabilities: z.array(z.string().refine(isCapability)),
  cores: z.number().positive(),
  memoryBytes: z.number().positive().optional(),
  retries: z.int().min(0),
  halt,
  /** A higher priority runs sooner. */
  priority: z.int().min(0),
  /** Names of the submissions that must be over before. */
  after: z.array(z.string()),
  prepare: z.string().optional(),
  notify: notifyTarget.optional(),
  submittedMs: z.number(),
  /** How many tasks were in the queue when it was last filled: tasks that were done before took no time. */
  filled: z.object({ atMs: z.number(), count: z.int().min(0) }).optional(),
  cancelledMs: z.number().optional(),
  /** Waiting tasks that its cancellation has dropped. */
  dropped: z.int().min(0).optional(),
  /** Tasks that were done when it was cancelled. */
  doneBefore: z.int().min(0).optional(),
  /** The store says that all are done. */
  overMs: z.number().optional(),
});
export type Submission = Readonly<z.infer<typeof submission>>;

const job = z.object({
  format: z.literal(QUEUE_FORMAT),
  index: z.int().min(0),
  /** A line of --tasks: a shell command. */
  command: z.string().optional(),
  /** The columns of a table. */
  values: z.record(z.string(), z.string()).optional(),
});
export type QueuedTask = Readonly<z.infer<typeof job>>;

/** A value from Redis, or why it cannot be used, worded as the end of a sentence. */
export type Parsed<T> = { readonly value: T } | { readonly why: string };

export function parseSubmission(data: unknown): Parsed<Submission> {
  return parse(submission, data);
}

export function parseQueuedTask(data: unknown): Parsed<QueuedTask> {
  return parse(job, data);
}

function parse<T>(schema: z.ZodType<T>, data: unknown): Parsed<T> {
  const format = formatOf(data);
  if (format !== QUEUE_FORMAT)
    return { why: `its format is ${showPath(String(format))}, and this capture reads ${QUEUE_FORMAT}` };
  const found = schema.safeParse(data);
  if (found.success) return { value: found.data };
  const [issue] = found.error.issues;
  return { why: `${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not readable'}` };
}

/** Undefined if it has no numeric format. */
export function formatOf(data: unknown): number | undefined {
  if (typeof data !== 'object' || data === null || !('format' in data)) return undefined;
  return typeof data.format === 'number' ? data.format : undefined;
}

/** BullMQ refuses plain numbers as job ids. */
export function jobIdOf(index: number): string {
  return `i${index}`;
}

/** Undefined for an id that capture does not make. */
export function indexOfJob(id: string | undefined): number | undefined {
  const [, digits] = /^i(\d{1,15})$/.exec(id ?? '') ?? [];
  return digits === undefined ? undefined : Number(digits);
}
