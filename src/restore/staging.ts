// One file of a restore, from the store to a temporary file: read, decompressed, checked against its record, and
// finished (mode, mtime, fsync). Placing it is then only a rename. A file that an earlier process has finished is checked
// in the same way.
import fs from 'node:fs';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { linkStaysInside } from '../model/file/link-target.ts';
import type { FileProgress } from '../model/format/progress-line.ts';
import { newMd5 } from '../model/md5.ts';
import { decodePath, encodePath, type RelPath, showPath } from '../model/path.ts';
import { formatBytes, plural } from '../model/units.ts';
import { beneath, beneathAsync, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { openBeneath, setMtime } from '../native/files.ts';
import { removeBeneath } from '../native/own-dir.ts';
import { freeBytesIn } from '../native/disk-use.ts';
import { NO_ZSTD_HINT } from '../native/zstd.ts';
import { CorruptError, noteFailure, NoZstdError, orCorrupt } from './failure.ts';
import { surveyLocal } from './local.ts';
import { ObjectMissingError, ReplacedError } from './object-stream.ts';
import type { Source } from './source.ts';

/** A link's target is a path: PATH_MAX. */
const LINK_LIMIT_BYTES = 4096;
export const PERMISSION_BITS = 0o777;
const OWNER_BITS = 0o700;
/** A file of unknown size may fill this share of the free space. */
const MOST_FILL = 0.9;
/** A file up to this size is written by one call. */
const AT_ONCE_BYTES = 256 * 1024;

/**
 * The result of a download. `ok`: the whole file is at `temp`. `missing`: there is no such object. `corrupt`: its
 * bytes differ from the record. `refused`: placing it would leave the work directory.
 */
export type Fetched =
  | {
      readonly kind: 'ok';
      readonly source: Source;
      readonly temp: RelPath;
      readonly md5: string;
      readonly size: number;
    }
  | { readonly kind: 'missing'; readonly source: Source }
  | {
      readonly kind: 'corrupt' | 'refused';
      readonly source: Source;
      readonly why: string;
      /** Another object has its key since: that one may be whole. */
      readonly isReplaced?: boolean;
    };

/** The stored bytes, and the function that decodes them. */
export interface Incoming {
  readonly body: AsyncIterable<Uint8Array>;
  /** Those that all objects have whose bytes came. */
  readonly permissions: () => number;
  readonly decompress: (stored: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
  readonly progress?: FileProgress | undefined;
  /** No fsync: whoever places the file syncs it first. Only where writes do not wait for a server. */
  readonly syncedLater?: boolean | undefined;
}

/** The link would lead out of the work directory. */
class RefusedError extends Error {}

/**
 * Writes and checks one file at `temp`, an unused name. Throws if the store or the work directory fails, or if there
 * is no zstd on this machine.
 */
export async function stage(
  root: WorkDir,
  source: Source,
  temp: RelPath,
  { body, permissions, decompress, progress, syncedLater = false }: Incoming,
): Promise<Fetched> {
  const stored = noteFailure(body);
  const plain = counted(source.compressed ? orCorrupt(decompress(stored.body)) : stored.body, progress);
  try {
    const { md5, size } =
      source.kind === 'link'
        ? await stageLink(root, source, temp, plain)
        : await stageFile({ root, temp, permissions, syncedLater }, source, plain);
    reached('restore.staged');
    progress?.done(size);
    return { kind: 'ok', source, temp, md5, size };
  } catch (error) {
    progress?.failed();
    await removeBeneath(root, temp);
    // The store's error comes first: the decompressor may have turned it into another one.
    const cause = stored.failure() ?? error;
    if (cause instanceof ObjectMissingError) return { kind: 'missing', source };
    if (cause instanceof ReplacedError)
      return { kind: 'corrupt', source, why: cause.message, isReplaced: true };
    if (cause instanceof CorruptError) return { kind: 'corrupt', source, why: cause.message };
    if (cause instanceof RefusedError) return { kind: 'refused', source, why: cause.message };
    if (cause instanceof NoZstdError) throw withoutZstd(source, cause);
    if (cause !== error || errnoOf(error) === undefined) throw cause;
    throw new CaptureError(
      EXIT.unavailable,
      `cannot restore ${showPath(source.path)} into ${root.path}: ${reasonOf(error)}`,
      { hint: `check the space and the rights in ${root.path}`, cause: error },
    );
  }
}

/** Passes the bytes on and reports their number. */
async function* counted(
  bytes: AsyncIterable<Uint8Array>,
  progress: FileProgress | undefined,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    progress?.moved(chunk.length);
    yield chunk;
  }
}

/** No record gives its size, and a few bytes of zstd can expand to more than any disk holds. */
function tooLarge(root: WorkDir, { path }: Source, mostBytes: number): CaptureError {
  return new CaptureError(
    EXIT.unavailable,
    `cannot restore ${showPath(path)} into ${root.path}: it is larger than ${formatBytes(mostBytes)}, nine tenths of what is free there`,
    { hint: 'free space there, or name a larger work directory with --workdir' },
  );
}

/** This is not a broken file: an older checkpoint instead would only lose work. */
function withoutZstd({ path }: Source, cause: NoZstdError): CaptureError {
  return new CaptureError(EXIT.unavailable, `cannot restore ${showPath(path)}: ${cause.message}`, {
    hint: NO_ZSTD_HINT,
    cause,
  });
}

interface Written {
  readonly md5: string;
  readonly size: number;
}

interface StagingTarget {
  readonly root: WorkDir;
  readonly temp: RelPath;
  readonly permissions: Incoming['permissions'];
  readonly syncedLater: boolean;
}

async function stageFile(
  to: StagingTarget,
  source: Source,
  plain: AsyncIterable<Uint8Array>,
): Promise<Written> {
  if (to.syncedLater && (source.size ?? Infinity) <= AT_ONCE_BYTES) return stageAtOnce(to, source, plain);
  const mostBytes = source.size === undefined ? MOST_FILL * (await freeBytesIn(to.root.path)) : Infinity;
  const handle = await beneathAsync(to.root, to.temp, (full) =>
    fs.promises.open(full, 'wx', modeOfNew(source)),
  );
  let bytes = 0;
  try {
    const written = await checked(source, plain, (chunk) => {
      bytes += chunk.length;
      if (bytes > mostBytes) throw tooLarge(to.root, source, mostBytes);
      return handle.appendFile(chunk);
    });
    finish(handle.fd, source, to.permissions());
    if (!to.syncedLater) await handle.sync();
    return written;
  } finally {
    await handle.close();
  }
}

/** If no call waits for a disk, doing the work on another thread costs more than the call itself. */
async function stageAtOnce(
  { root, temp, permissions }: StagingTarget,
  source: Source,
  plain: AsyncIterable<Uint8Array>,
): Promise<Written> {
  const chunks: Uint8Array[] = [];
  const written = await checked(source, plain, (chunk) => chunks.push(chunk));
  const fd = beneath(root, temp, (full) => fs.openSync(full, 'wx', modeOfNew(source)));
  try {
    fs.writeFileSync(fd, Buffer.concat(chunks));
    finish(fd, source, permissions());
    return written;
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Without a recorded mode the umask decides, as for any new file. Until `finish` the file is in a private directory.
 */
function modeOfNew({ mode }: Source): number {
  return mode === undefined ? 0o666 : 0o600;
}

/** Records and metadata may be forged: whoever may not read the object may not read the file either. */
function finish(fd: number, { mode, mtimeNs }: Source, permissions: number): void {
  const has = fs.fstatSync(fd).mode & PERMISSION_BITS;
  const gets = (mode ?? has) & (OWNER_BITS | permissions);
  if (gets !== has) fs.fchmodSync(fd, gets);
  // The last step: `isStaged` takes it as the mark of a finished file.
  if (mtimeNs !== undefined) setMtime(fd, mtimeNs);
}

/**
 * True if the file at `temp` is that of the source, and finished. It is then on disk: the process that wrote it may have
 * had a failed write and died before it could react; fsync(2) reports the failure again.
 */
export async function isStaged(
  root: WorkDir,
  source: Source,
  temp: RelPath,
  signal: AbortSignal,
): Promise<boolean> {
  const [found] = await surveyLocal(root, [{ ...source, path: temp }], {
    role: 'resumed',
    onLocal: 'stored',
    signal,
  });
  if (found?.local !== 'same') return false;
  if (source.kind === 'link') return true;
  const fd = openBeneath(root, temp);
  try {
    if (String(fs.fstatSync(fd, { bigint: true }).mtimeNs) !== source.mtimeNs) return false;
    fs.fsyncSync(fd);
    return true;
  } finally {
    fs.closeSync(fd);
  }
}

async function stageLink(
  root: WorkDir,
  source: Source,
  temp: RelPath,
  plain: AsyncIterable<Uint8Array>,
): Promise<Written> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  const written = await checked(source, plain, (chunk) => {
    bytes += chunk.length;
    if (bytes > LINK_LIMIT_BYTES) throw new CorruptError('it is too long for the text of a link');
    chunks.push(chunk);
  });
  const target = decodePath(Buffer.concat(chunks));
  if (!linkStaysInside(source.path, target)) {
    throw new RefusedError(`it is a link that leaves the work directory: ${showPath(target)}`);
  }
  await beneathAsync(root, temp, (full) => fs.promises.symlink(encodePath(target), full));
  return written;
}

/** Passes every chunk on, and throws unless size and md5 match the record, as far as it has them. */
async function checked(
  source: Source,
  plain: AsyncIterable<Uint8Array>,
  take: (chunk: Uint8Array) => unknown,
): Promise<Written> {
  const md5 = newMd5();
  let size = 0;
  for await (const chunk of plain) {
    size += chunk.length;
    // At once, not at the end: a frame can expand to more than any disk holds.
    if (source.size !== undefined && size > source.size) {
      throw new CorruptError(`it is longer than the ${plural(source.size, 'byte')} of its record`);
    }
    md5.update(chunk);
    await take(chunk);
  }
  if (source.size !== undefined && size < source.size) {
    throw new CorruptError(`it has ${plural(size, 'byte')}, its record says ${source.size}`);
  }
  const sum = md5.digest();
  if (source.md5 !== undefined && sum !== source.md5) {
    throw new CorruptError(`its md5 is ${sum}, its record says ${source.md5}`);
  }
  return { md5: sum, size };
}
