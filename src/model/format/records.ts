// The records: small immutable JSON objects that say what an attempt has stored so far. The format is fixed, because
// other programs read them. Everything read from a store is validated here before it is used.
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { TIME_NS } from '../file/file-state.ts';
import { isInside } from '../path.ts';
import { formatBytes } from '../units.ts';
import { parseForeignJson, type ValueBudget } from './foreign-json.ts';
import { MOST_NUMBER } from './keys.ts';
import { outOfMemorySchema } from './out-of-memory.ts';
import { resourcesSchema } from './resources.ts';
import { stopCauseSchema } from './stop-cause.ts';

/** The largest record that capture reads; it writes no larger one. */
export const RECORD_LIMIT_BYTES = 16 * 2 ** 20;
/** A record with more results than this moves them into an immutable list segment. */
export const RESULTS_PER_SEGMENT = 1000;

/** Enough for 10,000,000 results. */
const SEGMENTS_LIMIT = 10_000;
/** A record names the newest of them: what an older sidecar has sent is there by then. */
export const TAKEOVERS_LIMIT = 100;
/** Nobody keeps more generations than this: capture writes no such record. */
const GENERATIONS_LIMIT = 10_000;

function areUnique(keys: readonly string[]): boolean {
  return new Set(keys).size === keys.length;
}

/** A key below the store's own prefix: a record must not make capture read or delete anything else. */
const storeKey = z.string().max(1024).refine(isInside, 'no key of this store');
/**
 * A directory that can be opened (PATH_MAX, with its NUL), and a name in it (NAME_MAX, limits.h). A character of a path is
 * at least one byte.
 */
const LONGEST_PATH = 4095 + 256;
const filePath = z.string().min(1).max(LONGEST_PATH);
const number = z.int().positive().max(MOST_NUMBER);
/** Ns since the epoch. */
const mtimeNs = z.string().regex(TIME_NS);
const md5 = z.string().regex(/^[0-9a-f]{32}$/);
/** Of a file, in bytes: any off_t, which a JSON number gives to 53 bits. */
const size = z
  .number()
  .min(0)
  .max(2 ** 63)
  .refine(Number.isInteger, 'no whole number');
const time = z.iso.datetime();
/**
 * Of an entry in a sealed record: its md5, sizes and offsets, which are null beside it (seal/secrets.ts). Here only if
 * nobody could open it: then their values say nothing.
 */
const secret = z.string().max(1000).optional();

/** One stored object and the state of the file that it holds. */
const storedFile = z.object({
  /** The true path: keys can be shortened and escaped. */
  path: filePath,
  kind: z.enum(['file', 'link']).default('file'),
  key: storeKey,
  push: z.string().min(1),
  attempt: number,
  /** Of the uncompressed bytes; for a link, of its target. */
  md5,
  size,
  /** Size of the object as stored; absent if a later attempt found the object by its metadata. */
  storedSize: size.optional(),
  compressed: z.boolean(),
  mtimeNs,
  mode: z.int().min(0).max(0o7777),
  /** The kernel closed it for a dying process, or nothing proves otherwise. */
  suspect: z.boolean().optional(),
  secret,
});
export type StoredFile = Readonly<z.infer<typeof storedFile>>;

/** Bytes `first` to `first + size` of a companion. A restore joins the segments in order. */
const segment = z.object({
  key: storeKey,
  push: z.string().min(1),
  first: size,
  size,
  /** Of the uncompressed bytes. */
  md5,
  compressed: z.boolean(),
  secret,
});
export type Segment = Readonly<z.infer<typeof segment>>;

/** An append-only file that the task kept open, with at least its size at the time of the members. */
const companion = z.object({
  path: filePath,
  size,
  mode: z.int().min(0).max(0o7777),
  segments: z.array(segment),
  /** A result that was open and only appended to, and that nobody declared as a companion. */
  result: z.boolean().optional(),
  secret,
});
export type Companion = Readonly<z.infer<typeof companion>>;

/** A declared result with content that was not stored under its name when a generation was committed. */
const behind = z.object({
  path: filePath,
  /** The task had it open; otherwise it was being sent, or was staged. */
  open: z.boolean(),
  /** The state that the generation is ahead of. Attempt, size and mtime identify it in the store. */
  size,
  mtimeNs,
  /**
   * The pushes of older states: of the one under its name then, of those beside it, and of those that were sent and not
   * answered. Any other that the attempt puts there is this state or a later one.
   */
  over: z.array(z.string()).optional(),
  /** There may be more older ones: a dead sidecar has sent them, or too many were not answered. Also if there is no `over`. */
  unsure: z.boolean().optional(),
  /** It was closed before the last of the members. If no process died before that, a living process closed it. */
  followed: z.boolean().optional(),
  secret,
});
export type Behind = Readonly<z.infer<typeof behind>>;

/** What `attempt` had written to a result and is not stored under its key. A resume has continued after it. */
export const lackingSchema = z.object({
  path: filePath,
  open: z.boolean(),
  attempt: number,
  /** Key of the object that this attempt staged; absent: it is stored nowhere. */
  key: storeKey.optional(),
  /** The object is whole: a good generation followed it. It gets the result's name when the index is done. */
  whole: z.boolean().optional(),
});
export type Lacking = Readonly<z.infer<typeof lackingSchema>>;

const generation = z.object({
  /** Together unique and in time order. */
  attempt: number,
  generation: number,
  at: time,
  members: z.array(storedFile),
  companions: z.array(companion).default([]),
  suspect: z.boolean().optional(),
  incomplete: z.boolean().optional(),
  /** Results that the generation is ahead of: 1,000 at most. */
  behind: z.array(behind).optional(),
  /** What results have lost by earlier resumes. */
  lacking: z.array(lackingSchema).optional(),
  /** All members at one instant without a writer; nothing more is known. A power cut would leave the same. */
  instant: z.boolean().optional(),
  /** The evidence that its files belong to one round. */
  proof: z.string().max(20).optional(),
  /** The kernel may have closed a member for a dying process; a later record says whether it did. */
  unproven: z.boolean().optional(),
});
export type Generation = Readonly<z.infer<typeof generation>>;

/** The first numbers that a replacement sidecar uses, for its records and for its sets. */
const takeover = z.object({ seq: number, generation: number });
export type Takeover = Readonly<z.infer<typeof takeover>>;

/** A declared file that is not stored when the last record is written. */
const leftFile = z.object({ path: z.string().max(LONGEST_PATH), why: z.string() });
export type LeftFile = Readonly<z.infer<typeof leftFile>>;

/**
 * In place of a path that is too long for a record, the deepest directory above it that is not: a rename can make paths of
 * any length.
 */
export function inRecord(left: readonly LeftFile[]): readonly LeftFile[] {
  const above = new Set<string>();
  return left.flatMap((one) => {
    if (one.path.length <= LONGEST_PATH) return [one];
    const path = one.path.slice(0, one.path.lastIndexOf('/', LONGEST_PATH));
    if (above.has(path)) return [];
    above.add(path);
    return [{ ...one, path }];
  });
}

/** What a record says of its sealing. */
const sealedNote = z.object({
  /** The recipients, for people: each of their identities opens the index. */
  to: z.array(z.string()).readonly(),
  /** The key of the index, sealed for them: base64 of an object in the age format. */
  key: z.string(),
});
export type SealedNote = Readonly<z.infer<typeof sealedNote>>;

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

/** True for a record that is its attempt's last. */
export function isLast(kind: RecordKind): kind is 'preempted' | 'failed' | 'ended' | 'done' {
  return kind === 'preempted' || kind === 'failed' || kind === 'ended' || kind === 'done';
}

const format = z.literal(1, 'another version of capture wrote it, and this one reads 1');

export const recordSchema = z.object({
  format,
  kind: z.enum(RECORD_KINDS),
  /** Unique id of the put that made this record. */
  push: z.string().min(1),
  capture: z.string(),
  attempt: number,
  seq: z.int().nonnegative().max(MOST_NUMBER),
  at: time,
  task: z.string(),
  index: z.string(),
  runId: z.string().optional(),
  runToken: z.string(),
  host: z.string(),
  argv: z.array(z.string()),
  scheduler: z.record(z.string(), z.string()).default({}),
  startedAt: time,
  /** The objects of the attempt are sealed, and the secrets of its records. */
  sealed: sealedNote.optional(),
  /** The generation that the attempt resumed from, `<attempt>-<generation>`. */
  restored: z.string().optional(),
  /** Keys of list segments, oldest first; a later entry replaces an earlier one of the same path. */
  segments: z.array(storeKey).max(SEGMENTS_LIMIT).refine(areUnique, 'named twice').default([]),
  results: z.array(storedFile).default([]),
  /** Partial results of this attempt, stored beside the results. Never a baseline, never restored. */
  partials: z.array(storedFile).default([]),
  /** The highest n of the older objects (`.~n~`) of each path whose result was stored again. */
  kept: z.record(filePath, z.int().max(MOST_NUMBER)).default({}),
  /** Newest first. */
  generations: z.array(generation).max(GENERATIONS_LIMIT).default([]),
  /** The replacement sidecars of this attempt, in order. */
  takeovers: z.array(takeover).max(TAKEOVERS_LIMIT).optional(),
  /** Sets of this run that earlier records name, and this one does not, are deleted. */
  pruned: z.boolean().optional(),
  /** Deleted sets that an earlier record names: `<attempt>-<generation>`. */
  dropped: z.array(z.string()).optional(),
  /** Nothing that earlier records name is stored any more, of any run (`capture rm`). */
  removed: z.boolean().optional(),
  left: z.array(leftFile).default([]),
  /** Why the task was asked to end. If the field is invalid, the record is used without it. */
  stop: stopCauseSchema.optional().catch(undefined),
  /** The task's end: its exit code or signal, and capture's exit status. */
  end: z
    .object({
      code: z.int().optional(),
      signal: z.string().optional(),
      status: z.int(),
      reason: z.string().optional(),
      /** Of a failed attempt: what the machine shows, in a few words (`disk full`). */
      why: z.string().max(100).optional().catch(undefined),
      /** If the field is invalid, the record is used without it. */
      outOfMemory: outOfMemorySchema.optional().catch(undefined),
      /** Of a failed attempt: why no last lines of its output, or of one stream, are stored. */
      noOutput: z.string().optional(),
    })
    .optional(),
  /** Resource usage so far. If the field is invalid, the record is used without it. */
  resources: resourcesSchema.optional().catch(undefined),
});
export type CaptureRecord = Readonly<z.infer<typeof recordSchema>>;

const segmentSchema = z.object({ format, results: z.array(storedFile) });

/** A record, or why the text is not one. `budget`: for all records that are kept together. */
export function parseRecord(
  text: string,
  budget?: ValueBudget,
): CaptureRecord | { readonly invalid: string } {
  return parseWith(recordSchema, text, budget);
}

/** Why {@link parseRecord}, or the reader of the object, would refuse this text of ours; undefined: it would not. */
export function whyUnreadable(text: string): string | undefined {
  if (Buffer.byteLength(text) > RECORD_LIMIT_BYTES)
    return `it is larger than ${formatBytes(RECORD_LIMIT_BYTES)}`;
  const parsed = parseRecord(text);
  return 'invalid' in parsed ? parsed.invalid : undefined;
}

/** The entries of a list segment, or why the text is not one. */
export function parseSegment(text: string): readonly StoredFile[] | { readonly invalid: string } {
  const parsed = parseWith(segmentSchema, text);
  return 'invalid' in parsed ? parsed : parsed.results;
}

/** Accepts only a text with the right checksum. */
function parseWith<T>(
  schema: z.ZodType<T>,
  text: string,
  budget?: ValueBudget,
): T | { readonly invalid: string } {
  const json = parseForeignJson(text, budget);
  if ('invalid' in json) return json;
  const parsed = schema.safeParse(json.value);
  if (!parsed.success) {
    if (isSealed(json.value)) return { invalid: 'it is sealed, and no identity here opens it' };
    const issue = parsed.error.issues[0];
    return { invalid: `${issue?.path.join('.') || 'record'}: ${issue?.message ?? 'invalid'}` };
  }
  const sum = checkSum(text);
  if (sum === 'none') return { invalid: 'it has no checksum' };
  return sum === 'right' ? parsed.data : { invalid: 'its checksum is not that of its content' };
}

/** A reader that could open it would have filled in what is null. */
function isSealed(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'sealed' in value;
}

/**
 * The text ends with its own checksum. If a bit flips in the store, in a field's name or in a path, capture must not
 * silently restore something else.
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
 * `right`, `wrong`, or `none` if the text does not end with a checksum. The sum is the SHA-256 (lower case hex) of the
 * text in UTF-8 with `,"sum":"..."` left out.
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
