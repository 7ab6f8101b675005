// What a process knows of a result's object, as a row of 33 bytes.
import { MD5_BYTES, readMd5, readUuid, writeMd5, writeUuid } from './fields.ts';
import type { RowCodec } from './packed-map.ts';

export interface ResultRow {
  /** When we began to read its newest stored content; undefined: this process has stored none. */
  readonly publishedMs: number | undefined;
  /** The version tag of the object that this process has put there. */
  readonly tag: string | undefined;
  /** The number of the next staged object; 0 if there was none. */
  readonly nextNumber: number;
  /** It was reclaimed in this run: if it is written again, the task may have appended to an empty file. */
  readonly isReclaimed: boolean;
  /** An older object had to be kept: the local copy is never reclaimed any more. */
  readonly isOlderKept: boolean;
  /** This process has looked for the object that an earlier attempt stored. */
  readonly isConfirmed: boolean;
  /** The user got the message that it cannot be stored as it is. */
  readonly isRefused: boolean;
}

/** Nothing is known of the result yet. */
export const NO_RESULT: ResultRow = {
  publishedMs: undefined,
  tag: undefined,
  nextNumber: 0,
  isReclaimed: false,
  isOlderKept: false,
  isConfirmed: false,
  isRefused: false,
};

const PUBLISHED = 1;
/** The ETag of an S3 object from a single put. */
const TAG_IS_MD5 = 2;
/** A push id of a directory store. */
const TAG_IS_UUID = 4;
const RECLAIMED = 8;
const OLDER_KEPT = 16;
const CONFIRMED = 32;
const REFUSED = 64;

const PUBLISHED_MS = 1;
const NEXT_NUMBER = 9;
const TAG = 17;

export const resultRow: RowCodec<ResultRow> = {
  bytes: TAG + MD5_BYTES,
  write: ({ publishedMs, tag, nextNumber, ...is }, row, at) => {
    const isMd5 = tag !== undefined && writeMd5(tag, row, at + TAG);
    const isUuid = tag !== undefined && !isMd5 && writeUuid(tag, row, at + TAG);
    row[at] =
      (publishedMs === undefined ? 0 : PUBLISHED) |
      (isMd5 ? TAG_IS_MD5 : 0) |
      (isUuid ? TAG_IS_UUID : 0) |
      (is.isReclaimed ? RECLAIMED : 0) |
      (is.isOlderKept ? OLDER_KEPT : 0) |
      (is.isConfirmed ? CONFIRMED : 0) |
      (is.isRefused ? REFUSED : 0);
    row.writeDoubleLE(publishedMs ?? 0, at + PUBLISHED_MS);
    row.writeDoubleLE(nextNumber, at + NEXT_NUMBER);
    return tag === undefined || isMd5 || isUuid;
  },
  read: (row, at) => {
    const flags = row[at] ?? 0;
    const has = (flag: number): boolean => (flags & flag) !== 0;
    return {
      publishedMs: has(PUBLISHED) ? row.readDoubleLE(at + PUBLISHED_MS) : undefined,
      tag: has(TAG_IS_MD5) ? readMd5(row, at + TAG) : has(TAG_IS_UUID) ? readUuid(row, at + TAG) : undefined,
      nextNumber: row.readDoubleLE(at + NEXT_NUMBER),
      isReclaimed: has(RECLAIMED),
      isOlderKept: has(OLDER_KEPT),
      isConfirmed: has(CONFIRMED),
      isRefused: has(REFUSED),
    };
  },
};
