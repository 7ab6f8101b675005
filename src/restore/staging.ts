// One file of a restore, from the store to a temporary file: read, decompressed, checked against its record, and
// finished (mode, mtime, fsync), so that placing it is only a rename. Where a whole file waits that an earlier process
// has staged, it is checked and finished in the same way.
import fs from 'node:fs';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { linkStaysInside } from '../model/file/link-target.ts';
import type { FileProgress } from '../model/format/progress-line.ts';
import { newMd5 } from '../model/md5.ts';
import { decodePath, encodePath, type RelPath, showPath } from '../model/path.ts';
import { formatBytes, plural } from '../model/units.ts';
import { beneath, beneathMeanwhile, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { openBeneath, setMtime } from '../native/files.ts';
import { removeBeneath } from '../native/own-dir.ts';
import { freeBytesIn } from '../native/uses.ts';
import { NO_ZSTD_HINT } from '../native/zstd.ts';
import { CorruptError, noteFailure, NoZstdError, orCorrupt } from './failure.ts';
import { surveyLocal } from './local.ts';
import { ObjectMissingError } from './object-stream.ts';
import type { Source } from './source.ts';

/** The text of a link is a path: PATH_MAX. */
const LINK_LIMIT_BYTES = 4096;
const PERMISSION_BITS = 0o777;
/** So much of what is free a file may take whose size no record says. */
const FILLED = 0.9;
/** A file of so many bytes is small enough to be written by one call. */
const AT_ONCE_BYTES = 256 * 1024;

/**
 * What a download came to. `ok`: it waits, whole, at `temp`. `missing`: no such object. `corrupt`: its bytes are
 * not those of the record. `refused`: placing it would leave the work directory.
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
  | { readonly kind: 'corrupt' | 'refused'; readonly source: Source; readonly why: string };

/** The bytes as stored, and what turns them into those of the file. */
export interface Incoming {
  readonly body: AsyncIterable<Uint8Array>;
  readonly decompress: (stored: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
  readonly progress?: FileProgress | undefined;
  /** No fsync: whoever places the file sees to it before that. Only where no write waits for a server. */
  readonly syncedLater?: boolean | undefined;
}

/** The link would lead out. */
class RefusedError extends Error {}

/**
 * Writes and checks one file at `temp`, a free name. Throws when the store or the work directory fails, or no zstd is
 * here.
 */
export async function stage(
  root: WorkDir,
  source: Source,
  temp: RelPath,
  { body, decompress, progress, syncedLater = false }: Incoming,
): Promise<Fetched> {
  const stored = noteFailure(body);
  const plain = counted(source.compressed ? orCorrupt(decompress(stored.body)) : stored.body, progress);
  try {
    const { md5, size } =
      source.kind === 'link'
        ? await stageLink(root, source, temp, plain)
        : await stageFile({ root, temp, syncedLater }, source, plain);
    reached('restore.staged');
    progress?.done(size);
    return { kind: 'ok', source, temp, md5, size };
  } catch (error) {
    progress?.failed();
    await removeBeneath(root, temp);
    // What the store threw comes first: a decompressor may have made another error of it.
    const cause = stored.failure() ?? error;
    if (cause instanceof ObjectMissingError) return { kind: 'missing', source };
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

/** The same bytes, told of piece by piece. */
async function* counted(
  bytes: AsyncIterable<Uint8Array>,
  progress: FileProgress | undefined,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    progress?.moved(chunk.length);
    yield chunk;
  }
}

/** No record says how large it is, and a few bytes of zstd can unfold to more than any disk holds. */
function tooLarge(root: WorkDir, { path }: Source, mostBytes: number): CaptureError {
  return new CaptureError(
    EXIT.unavailable,
    `cannot restore ${showPath(path)} into ${root.path}: it is larger than ${formatBytes(mostBytes)}, nine tenths of what is free there`,
    { hint: 'free space there, or name a larger work directory with --workdir' },
  );
}

/** Not a broken file: an older checkpoint in its place would only lose work. */
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

interface To {
  readonly root: WorkDir;
  readonly temp: RelPath;
  readonly syncedLater: boolean;
}

async function stageFile(to: To, source: Source, plain: AsyncIterable<Uint8Array>): Promise<Written> {
  if (to.syncedLater && (source.size ?? Infinity) <= AT_ONCE_BYTES) return stageAtOnce(to, source, plain);
  const mostBytes = source.size === undefined ? FILLED * (await freeBytesIn(to.root.path)) : Infinity;
  const handle = await beneathMeanwhile(to.root, to.temp, (full) =>
    fs.promises.open(full, 'wx', modeOfNew(source)),
  );
  let bytes = 0;
  try {
    const written = await checked(source, plain, (chunk) => {
      bytes += chunk.length;
      if (bytes > mostBytes) throw tooLarge(to.root, source, mostBytes);
      return handle.appendFile(chunk);
    });
    finish(handle.fd, source);
    if (!to.syncedLater) await handle.sync();
    return written;
  } finally {
    await handle.close();
  }
}

/** Where no call waits for a disk, to have another thread make it costs more than the call. */
async function stageAtOnce(
  { root, temp }: To,
  source: Source,
  plain: AsyncIterable<Uint8Array>,
): Promise<Written> {
  const chunks: Uint8Array[] = [];
  const written = await checked(source, plain, (chunk) => chunks.push(chunk));
  const fd = beneath(root, temp, (full) => fs.openSync(full, 'wx', modeOfNew(source)));
  try {
    fs.writeFileSync(fd, Buffer.concat(chunks));
    finish(fd, source);
    return written;
  } finally {
    fs.closeSync(fd);
  }
}

/** Without a recorded mode the umask decides, as for any new file: nobody gets rights that the object does not give. */
function modeOfNew({ mode, mostMode = 0o666 }: Source): number {
  return mode === undefined ? 0o600 | (0o066 & mostMode) : 0o600;
}

function finish(fd: number, { mode, mtimeNs }: Source): void {
  if (mode !== undefined) fs.fchmodSync(fd, mode & PERMISSION_BITS);
  if (mtimeNs !== undefined) setMtime(fd, mtimeNs);
}

/**
 * False unless the file at `temp` is that of the source. It is on the disk then: the process that has written it may have
 * been told that a write failed, and not have lived to act on it; fsync(2) tells it again.
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
    finish(fd, source);
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
  await beneathMeanwhile(root, temp, (full) => fs.promises.symlink(encodePath(target), full));
  return written;
}

/** Hands every chunk on, and throws unless size and md5 are those of the record, as far as it has them. */
async function checked(
  source: Source,
  plain: AsyncIterable<Uint8Array>,
  take: (chunk: Uint8Array) => unknown,
): Promise<Written> {
  const md5 = newMd5();
  let size = 0;
  for await (const chunk of plain) {
    size += chunk.length;
    // At once, not at the end: a frame can unfold to more than any disk holds.
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
