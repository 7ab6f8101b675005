// A file state as a row of 101 bytes. The few different reasons why files are left are kept once for all rows.
import type { Evidence } from '../file/evidence.ts';
import type { Close, ClosedHow, Durable, FileRole, FileState } from '../file/file-state.ts';
import {
  FINGERPRINT_BYTES,
  MD5_BYTES,
  readFingerprint,
  readMd5,
  writeCount,
  writeFingerprint,
  writeMd5,
} from './fields.ts';
import type { RowCodec } from './packed-map.ts';

const HOWS: readonly ClosedHow[] = ['close', 'rename', 'link', 'scan', 'quiet', 'dir-rename'];
const EVIDENCE: readonly Evidence[] = ['unknown', 'clean', 'doubtful'];
/** With more different reasons than this, the state is not packed. */
const MOST_REASONS = 1000;
const MOST_TRIES = 0xff;

const PENDING = 1;
const PUSHING = 2;
const CLOSED_AGAIN = 4;
const BLOCKED = 8;
const SPOOL_FIRST = 16;
const INHERITED = 32;
const DURABLE = 64;
/** Durable without content: an empty file has no md5. */
const EMPTY = 128;

const HOW = 2;
const TORN = 3;
const FAILED = 4;
const LEFT = 5;
const CLOSES = 7;
const READING = 11;
const BEHIND = 15;
const NOT_BEFORE = 19;
const CLOSED_AT = 27;
const SEQ = 35;
const SINCE = 39;
const FINGERPRINT = 43;
const MD5 = FINGERPRINT + FINGERPRINT_BYTES;

/** The reasons why files are left, each text once. */
class Reasons {
  readonly #texts: string[] = [];

  /** 0 for no reason, -1 if there are too many. */
  numberOf(left: string | undefined): number {
    if (left === undefined) return 0;
    const known = this.#texts.indexOf(left);
    if (known !== -1) return known + 1;
    return this.#texts.length < MOST_REASONS ? this.#texts.push(left) : -1;
  }

  at(number: number): string | undefined {
    return this.#texts[number - 1];
  }
}

export function fileStateRow(role: FileRole): RowCodec<FileState> {
  const reasons = new Reasons();
  return {
    bytes: MD5 + MD5_BYTES,
    write: (fileState, row, at, path) => {
      const left = reasons.numberOf(fileState.left);
      const { lastClose, inherited, durable, seen, tornTries, failedTries } = fileState;
      if (seen !== undefined) return false;
      if (left === -1 || tornTries > MOST_TRIES || failedTries > MOST_TRIES) return false;
      row.writeUInt16LE(flagsOf(fileState), at);
      row[at + HOW] = lastClose === undefined ? 0 : numberOfClose(lastClose);
      row[at + TORN] = tornTries;
      row[at + FAILED] = failedTries;
      row.writeUInt16LE(left, at + LEFT);
      row.writeDoubleLE(fileState.notBeforeMs, at + NOT_BEFORE);
      row.writeDoubleLE(lastClose?.atMs ?? 0, at + CLOSED_AT);
      return (
        fileState.path === path &&
        fileState.role === role &&
        writeCount(fileState.closes, row, at + CLOSES) &&
        writeCount(fileState.readingCloses, row, at + READING) &&
        writeCount(fileState.durableCloses, row, at + BEHIND) &&
        writeCount(lastClose?.seq ?? 0, row, at + SEQ) &&
        // 0: unknown.
        writeCount(lastClose?.since === undefined ? 0 : lastClose.since + 1, row, at + SINCE) &&
        // A row has room for one fingerprint.
        (inherited === undefined ||
          (durable === undefined && writeFingerprint(inherited, row, at + FINGERPRINT))) &&
        (durable === undefined || writeDurable(durable, row, at))
      );
    },
    read: (row, at, path) => {
      const flags = row.readUInt16LE(at);
      return {
        path,
        role,
        inherited: (flags & INHERITED) === 0 ? undefined : readFingerprint(row, at + FINGERPRINT),
        pending: (flags & PENDING) !== 0,
        pushing: (flags & PUSHING) !== 0,
        closedAgain: (flags & CLOSED_AGAIN) !== 0,
        seen: undefined,
        blocked: (flags & BLOCKED) !== 0,
        notBeforeMs: row.readDoubleLE(at + NOT_BEFORE),
        tornTries: row[at + TORN] ?? 0,
        spoolFirst: (flags & SPOOL_FIRST) !== 0,
        failedTries: row[at + FAILED] ?? 0,
        lastClose: readClose(row, at),
        closes: row.readUInt32LE(at + CLOSES),
        readingCloses: row.readUInt32LE(at + READING),
        durableCloses: row.readUInt32LE(at + BEHIND),
        durable: (flags & DURABLE) === 0 ? undefined : readDurable(row, at, (flags & EMPTY) !== 0),
        left: reasons.at(row.readUInt16LE(at + LEFT)),
      };
    },
  };
}

/** Never 0. */
function numberOfClose({ how, evidence }: Close): number {
  return EVIDENCE.indexOf(evidence) * HOWS.length + HOWS.indexOf(how) + 1;
}

function readClose(row: Buffer, at: number): Close | undefined {
  const told = (row[at + HOW] ?? 0) - 1;
  const how = HOWS[told % HOWS.length];
  const evidence = EVIDENCE[Math.floor(told / HOWS.length)];
  if (how === undefined || evidence === undefined) return undefined;
  const since = row.readUInt32LE(at + SINCE);
  return {
    how,
    evidence,
    atMs: row.readDoubleLE(at + CLOSED_AT),
    seq: row.readUInt32LE(at + SEQ),
    ...(since === 0 ? {} : { since: since - 1 }),
  };
}

function flagsOf(fileState: FileState): number {
  const { durable } = fileState;
  return (
    (fileState.pending ? PENDING : 0) |
    (fileState.pushing ? PUSHING : 0) |
    (fileState.closedAgain ? CLOSED_AGAIN : 0) |
    (fileState.blocked ? BLOCKED : 0) |
    (fileState.spoolFirst ? SPOOL_FIRST : 0) |
    (fileState.inherited === undefined ? 0 : INHERITED) |
    (durable === undefined ? 0 : DURABLE) |
    (durable?.md5 === '' ? EMPTY : 0)
  );
}

function writeDurable({ fingerprint, md5, size }: Durable, row: Buffer, at: number): boolean {
  return (
    size === fingerprint.size &&
    writeFingerprint(fingerprint, row, at + FINGERPRINT) &&
    (md5 === '' || writeMd5(md5, row, at + MD5))
  );
}

function readDurable(row: Buffer, at: number, empty: boolean): Durable {
  const fingerprint = readFingerprint(row, at + FINGERPRINT);
  return { fingerprint, md5: empty ? '' : readMd5(row, at + MD5), size: fingerprint.size };
}
