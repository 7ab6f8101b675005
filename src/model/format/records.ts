// The records: small immutable JSON objects that say what an attempt has stored so far. The format is fixed, because
// other programs read them. Everything read from a store is validated here before anything believes it.
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { isInside } from '../path.ts';
import { parseForeignJson, type ValueBudget } from './foreign-json.ts';
import { resourcesSchema } from './resources.ts';

/** The largest record that is read; a larger one is not ours. */
export const RECORD_LIMIT_BYTES = 16 * 2 ** 20;
/** A record with more results than this moves them into an immutable list segment. */
export const RESULTS_PER_SEGMENT = 1000;

/** Of 10,000,000 results. */
const SEGMENTS_LIMIT = 10_000;
/** Nobody keeps more generations than this: such a record is not ours. */
const GENERATIONS_LIMIT = 10_000;

/** A key below the store's own prefix: a record must not make us read or delete anything else. */
const storeKey = z.string().max(1024).refine(isInside, 'no key of this store');
/** Ns since the epoch, of 64 bits. */
const mtimeNs = z.string().regex(/^-?\d{1,19}$/);
const md5 = z.string().regex(/^[0-9a-f]{32}$/);
const time = z.iso.datetime();

/** One stored object and the file that it was. */
const storedFile = z.object({
  /** The true path: keys can be shortened and escaped. */
  path: z.string().min(1),
  kind: z.enum(['file', 'link']).default('file'),
  key: storeKey,
  push: z.string().min(1),
  attempt: z.int().positive(),
  /** Of the uncompressed bytes; for a link, of the target's text. */
  md5,
  size: z.int().nonnegative(),
  /** Size of the object as it is stored; absent where a later attempt found it by its metadata. */
  storedSize: z.int().nonnegative().optional(),
  compressed: z.boolean(),
  mtimeNs,
  mode: z.int().min(0).max(0o7777),
  /** A death closed it, or nothing proves otherwise. */
  suspect: z.boolean().optional(),
});
export type StoredFile = Readonly<z.infer<typeof storedFile>>;

/** Bytes `first` to `first + size` of a companion; a restore joins its segments in order. */
const segment = z.object({
  key: storeKey,
  push: z.string().min(1),
  first: z.int().nonnegative(),
  size: z.int().nonnegative(),
  /** Of the uncompressed bytes. */
  md5,
  compressed: z.boolean(),
});
export type Segment = Readonly<z.infer<typeof segment>>;

/** An append-only file that the task kept open, at its size when the members were seen, or longer. */
const companion = z.object({
  path: z.string().min(1),
  size: z.int().nonnegative(),
  mode: z.int().min(0).max(0o7777),
  segments: z.array(segment),
  /** A result that was open and only appended to, which nobody declared as a companion. */
  result: z.boolean().optional(),
});
export type Companion = Readonly<z.infer<typeof companion>>;

/** A declared result with content that did not stand under its name when a generation was committed. */
const behind = z.object({
  path: z.string().min(1),
  /** Nobody had closed it; otherwise it was on its way, or staged. */
  open: z.boolean(),
  /** The state that the generation is ahead of: with its attempt, size and mtime it is known again in the store. */
  size: z.int().nonnegative(),
  mtimeNs,
  /** It was closed before the last of the members: if nobody died before them, whoever closed it lived on. */
  followed: z.boolean().optional(),
});
export type Behind = Readonly<z.infer<typeof behind>>;

/** What `attempt` had written to a result and is not stored under its key: a resume has continued after it. */
export const lackingSchema = z.object({
  path: z.string().min(1),
  open: z.boolean(),
  attempt: z.int().positive(),
  /** Key of the staged object that this attempt left; without one it is stored nowhere. */
  key: storeKey.optional(),
  /** The object is whole: a good generation followed it. It gets the result's name when the index is done. */
  whole: z.boolean().optional(),
});
export type Lacking = Readonly<z.infer<typeof lackingSchema>>;

const generation = z.object({
  /** Together unique and in time order. */
  attempt: z.int().positive(),
  generation: z.int().positive(),
  at: time,
  members: z.array(storedFile),
  companions: z.array(companion).default([]),
  suspect: z.boolean().optional(),
  incomplete: z.boolean().optional(),
  /** Results that it is ahead of: 1,000 at most. */
  behind: z.array(behind).optional(),
  /** What results have lost by resumes before it. */
  lacking: z.array(lackingSchema).optional(),
  /**
   * All members at one instant at which none had a writer; nothing more is known. It is what a power cut would leave.
   */
  instant: z.boolean().optional(),
  /** How its files are known to be of one round: by which evidence. */
  proof: z.string().max(20).optional(),
  /** A death may have made a close of it; a later record says whether one did. */
  unproven: z.boolean().optional(),
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

/** True for a record after which its attempt writes no other. */
export function isLast(kind: RecordKind): kind is 'preempted' | 'failed' | 'ended' | 'done' {
  return kind === 'preempted' || kind === 'failed' || kind === 'ended' || kind === 'done';
}

const format = z.literal(1, 'another version of capture wrote it, and this one reads 1');

const recordSchema = z.object({
  format,
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
  /** The generation that the attempt began with, `<attempt>-<generation>`. */
  restored: z.string().optional(),
  /** Keys of list segments, oldest first; an entry further on replaces an earlier one of the same path. */
  segments: z.array(storeKey).max(SEGMENTS_LIMIT).default([]),
  results: z.array(storedFile).default([]),
  /** Partial results of this attempt, stored beside the results: never a baseline, never restored. */
  partials: z.array(storedFile).default([]),
  /** Older objects of results that came again (`.~n~`), by path the highest n. */
  kept: z.record(z.string(), z.int()).default({}),
  /** Newest first. */
  generations: z.array(generation).max(GENERATIONS_LIMIT).default([]),
  /** Sets of its run that earlier records name, and this one does not, are deleted. */
  pruned: z.boolean().optional(),
  /** Sets that a record of an earlier attempt names, and that are deleted since: `<attempt>-<generation>`. */
  dropped: z.array(z.string()).optional(),
  /** Nothing that earlier records name is stored any more, of no run (`capture rm`). */
  removed: z.boolean().optional(),
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
  /** What the attempt has used by then. If it makes no sense, the record is believed without it. */
  resources: resourcesSchema.optional().catch(undefined),
});
export type CaptureRecord = Readonly<z.infer<typeof recordSchema>>;

const segmentSchema = z.object({ format, results: z.array(storedFile) });

/** A record, or why the text is none. `budget`: of the records that are kept beside it. */
export function parseRecord(
  text: string,
  budget?: ValueBudget,
): CaptureRecord | { readonly invalid: string } {
  return parseWith(recordSchema, text, budget);
}

/** The entries of a list segment, or why the text is none. */
export function parseSegment(text: string): readonly StoredFile[] | { readonly invalid: string } {
  const parsed = parseWith(segmentSchema, text);
  return 'invalid' in parsed ? parsed : parsed.results;
}

/** Only a text with the right checksum is believed. */
function parseWith<T>(
  schema: z.ZodType<T>,
  text: string,
  budget?: ValueBudget,
): T | { readonly invalid: string } {
  const json = parseForeignJson(text, budget);
  if ('invalid' in json) return json;
  const parsed = schema.safeParse(json.value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    return { invalid: `${issue?.path.join('.') || 'record'}: ${issue?.message ?? 'invalid'}` };
  }
  const sum = checkSum(text);
  if (sum === 'none') return { invalid: 'it has no checksum' };
  return sum === 'right' ? parsed.data : { invalid: 'its checksum is not that of its content' };
}

/**
 * The text ends with a checksum of itself: if a bit flips in the store, in a field's name or in a path, nothing else may
 * be restored without a word.
 */
const HEX_DIGITS = 64;
const BEFORE = ',"sum":"';
const AFTER = '"}';
const ENDING_LENGTH = BEFORE.length + HEX_DIGITS + AFTER.length;

/** The text of an object that has at least one field; its last field is `sum`. */
export function textWithSum(body: object): string {
  const bare = JSON.stringify(body);
  return `${bare.slice(0, -1)}${BEFORE}${sumOf(bare)}${AFTER}`;
}

/**
 * `right`, `wrong`, or `none` if the text does not end with a checksum. The sum is the SHA-256 (lower case hex) of
 * the text in UTF-8 with `,"sum":"..."` left out.
 */
export function checkSum(text: string): 'right' | 'wrong' | 'none' {
  const ending = text.slice(-ENDING_LENGTH);
  if (!ending.startsWith(BEFORE) || !ending.endsWith(AFTER)) return 'none';
  const sum = ending.slice(BEFORE.length, -AFTER.length);
  return sumOf(`${text.slice(0, -ENDING_LENGTH)}}`) === sum ? 'right' : 'wrong';
}

function sumOf(bare: string): string {
  return createHash('sha256').update(bare).digest('hex');
}
