// The records: small immutable JSON objects that say what an attempt has stored so far. Formats are fixed,
// other programs read them. Everything read from a store is validated here before anything believes it.
import { z } from 'zod';

/** Bytes of a record that is still read; a larger one is not ours. */
export const RECORD_LIMIT_BYTES = 16 * 2 ** 20;
/** A record with more results than this moves them into an immutable list segment. */
export const RESULTS_PER_SEGMENT = 1000;

const md5 = z.string().regex(/^[0-9a-f]{32}$/);
const time = z.iso.datetime();

/** One stored object and the file that it was. */
const storedFile = z.object({
  /** The true path: keys can be shortened and escaped. */
  path: z.string().min(1),
  kind: z.enum(['file', 'link']).default('file'),
  key: z.string().min(1),
  push: z.string().min(1),
  attempt: z.int().positive(),
  /** Of the uncompressed bytes; of the target's text for a link. */
  md5,
  size: z.int().nonnegative(),
  compressed: z.boolean(),
  mtimeNs: z.string().regex(/^-?\d+$/),
  mode: z.int().min(0).max(0o7777),
  /** Closed by a death, or not proven otherwise. */
  suspect: z.boolean().optional(),
});
export type StoredFile = Readonly<z.infer<typeof storedFile>>;

/** One append-only piece of a companion; a restore joins them in order. */
const segment = z.object({
  key: z.string().min(1),
  push: z.string().min(1),
  first: z.int().nonnegative(),
  size: z.int().nonnegative(),
  md5,
  compressed: z.boolean(),
});

const generation = z.object({
  /** Together unique and in time order. */
  attempt: z.int().positive(),
  generation: z.int().positive(),
  at: time,
  members: z.array(storedFile),
  companions: z
    .array(
      z.object({
        path: z.string().min(1),
        md5,
        size: z.int().nonnegative(),
        mode: z.int(),
        segments: z.array(segment),
      }),
    )
    .default([]),
  suspect: z.boolean().optional(),
  incomplete: z.boolean().optional(),
});
export type Generation = Readonly<z.infer<typeof generation>>;

/** A declared file of the last record that is not stored. */
const leftFile = z.object({ path: z.string(), why: z.string() });
export type LeftFile = Readonly<z.infer<typeof leftFile>>;

export const RECORD_KINDS = [
  'started',
  'stored',
  'checkpoint',
  'preempted',
  'failed',
  'ended',
  'done',
] as const;
export type RecordKind = (typeof RECORD_KINDS)[number];

export const recordSchema = z.object({
  format: z.literal(1),
  kind: z.enum(RECORD_KINDS),
  /** Unique id of the put that made this record. */
  push: z.string().min(1),
  capture: z.string(),
  attempt: z.int().positive(),
  seq: z.int().nonnegative(),
  at: time,
  task: z.string(),
  index: z.string(),
  runId: z.string().optional(),
  runToken: z.string(),
  host: z.string(),
  argv: z.array(z.string()),
  scheduler: z.record(z.string(), z.string()).default({}),
  startedAt: time,
  /** Keys of list segments, oldest first; an entry further on replaces an earlier one of the same path. */
  segments: z.array(z.string()).default([]),
  results: z.array(storedFile).default([]),
  /** What this attempt's death left of results, stored beside them: never a baseline, never restored. */
  partials: z.array(storedFile).default([]),
  /** Older objects of results that came again (`.~n~`), by path the highest n. */
  kept: z.record(z.string(), z.int()).default({}),
  /** Newest last. */
  generations: z.array(generation).default([]),
  left: z.array(leftFile).default([]),
  /** The task's end: exit code or signal, and what capture exited with. */
  end: z
    .object({
      code: z.int().optional(),
      signal: z.string().optional(),
      status: z.int(),
      reason: z.string().optional(),
    })
    .optional(),
});
export type CaptureRecord = Readonly<z.infer<typeof recordSchema>>;

export const segmentSchema = z.object({ format: z.literal(1), results: z.array(storedFile) });

/** A record, or why it is none. */
export function parseRecord(text: string): CaptureRecord | { readonly invalid: string } {
  return parseWith(recordSchema, text);
}

/** A list segment's entries, or why it is none. */
export function parseSegment(text: string): readonly StoredFile[] | { readonly invalid: string } {
  const parsed = parseWith(segmentSchema, text);
  return 'invalid' in parsed ? parsed : parsed.results;
}

function parseWith<T>(schema: z.ZodType<T>, text: string): T | { readonly invalid: string } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { invalid: 'not JSON' };
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  return { invalid: `${issue?.path.join('.') || 'record'}: ${issue?.message ?? 'invalid'}` };
}
