// Downloads the files of a restore into temporary files in `.capture/restore/`, and checks each against its record.
// Nothing appears in the work directory before place.ts has seen that all of them are whole.
import fs from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import pLimit from 'p-limit';
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import type { FileProgress } from '../model/format/progress-line.ts';
import { newMd5 } from '../model/md5.ts';
import { isInside, joinPath, type RelPath } from '../model/path.ts';
import { formatBytes, plural } from '../model/units.ts';
import { linkSignals } from '../model/waiting.ts';
import { holdDirectory, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { freeBytesIn } from '../native/uses.ts';
import { absolutePath, ownDir, removeBeneath, removeOwnDir } from '../native/own-dir.ts';
import type { Store } from '../store/contract/store.ts';
import { CorruptError, noteFailure, orCorrupt } from './failure.ts';
import { objectStream, RANGE_BYTES, type StreamOptions } from './object-stream.ts';
import type { SegmentSource, Source } from './source.ts';
import { type Fetched, type Incoming, stage } from './staging.ts';

export interface FetchOptions {
  readonly signal: AbortSignal;
  /** Small files at once, and ranges of a large file at once (8 MiB of memory each). */
  readonly parallel: number;
  readonly decompress: Incoming['decompress'];
  /** Told of each file as it comes. */
  readonly progress?: () => FileProgress;
  readonly syncedLater?: Incoming['syncedLater'];
}

/** Downloads that wait to be placed. */
export interface Staged {
  /** In the order of the sources. */
  readonly files: readonly Fetched[];
  /** All are `ok`. */
  readonly whole: boolean;
  /** Removes what has not been placed. */
  close(): Promise<void>;
}

/**
 * Fetches all sources. What is wrong with one file is in its result. Throws if the store or the work directory fails,
 * after everything under way has stopped and the temporary files are gone.
 */
export async function fetchFiles(
  store: Store,
  sources: readonly Source[],
  root: WorkDir,
  options: FetchOptions,
): Promise<Staged> {
  await checkSpace(root, sources);
  const dir = await temporaryDir(root);
  reached('restore.before-fetch');
  const close = (): Promise<void> => removeBeneath(root, dir);
  const stop = new AbortController();
  const { signal, unlink } = linkSignals(options.signal, stop.signal);
  // One large file fills the link with its ranges; the small ones share it with them.
  const large = pLimit(1);
  const small = pLimit(options.parallel);
  const failures: unknown[] = [];
  const work = sources.map(async (source, n) => {
    const limit = (source.size ?? Infinity) > RANGE_BYTES ? large : small;
    try {
      return await limit(() => fetchFile({ store, root }, source, `${dir}/${n}`, { ...options, signal }));
    } catch (error) {
      failures.push(error);
      stop.abort(error);
      throw error;
    }
  });
  await Promise.allSettled(work);
  unlink();
  if (failures.length > 0) {
    await close();
    throw failures[0];
  }
  const files = await Promise.all(work);
  reached('restore.fetched');
  return { files, whole: files.every(({ kind }) => kind === 'ok'), close };
}

/**
 * Better no start than a work directory that is full of half a checkpoint. Throws if the sizes that are known do not
 * fit.
 */
async function checkSpace(root: WorkDir, sources: readonly Source[]): Promise<void> {
  const needed = sources.reduce((sum, { size = 0 }) => sum + size, 0);
  const available = await freeBytesIn(root.path);
  if (needed <= available) return;
  const what = `${plural(sources.length, 'file')} (${formatBytes(needed)})`;
  throw new CaptureError(
    EXIT.unavailable,
    `cannot restore ${what} into ${root.path}: ${formatBytes(available)} are free`,
    { hint: 'free space there, or name a larger work directory with --workdir' },
  );
}

async function temporaryDir(root: WorkDir): Promise<RelPath> {
  const dir = ownDir(root, 'restore');
  const { at, close } = holdDirectory(root, dir);
  try {
    const made = await mkdtemp(`${at}/`);
    return `${dir}/${made.slice(made.lastIndexOf('/') + 1)}`;
  } finally {
    close();
  }
}

/** Fetches one file to `temp`, a free name in the same file system. */
export async function fetchFile(
  { store, root }: { readonly store: Store; readonly root: WorkDir },
  source: Source,
  temp: RelPath,
  { signal, parallel, decompress, progress, syncedLater }: FetchOptions,
): Promise<Fetched> {
  signal.throwIfAborted();
  const why = whyRefused(root, source.path);
  if (why !== undefined) return { kind: 'refused', source, why };
  const body =
    source.segments === undefined
      ? objectStream(store, source.key, { parallel, sizeHintBytes: source.size, signal })
      : joinSegments(store, source.segments, { parallel, decompress, signal });
  return stage(root, source, temp, { body, decompress, progress: progress?.(), syncedLater });
}

export interface JoinOptions extends Omit<StreamOptions, 'sizeHintBytes'> {
  readonly decompress: (stored: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
}

/**
 * The bytes of a file that a record tells all of, as they come. Only the end says that they are those of the record:
 * throws CorruptError if they are not, what {@link objectStream} throws, and what the store throws.
 */
export function recordedBytes(
  store: Store,
  { segments, ...file }: SegmentSource & Pick<Source, 'segments'>,
  options: JoinOptions,
): AsyncGenerator<Uint8Array> {
  return segments === undefined ? bytesOf(store, file, options) : joinSegments(store, segments, options);
}

/**
 * All bytes of a companion, joined from its segments. Each is checked against its record before the next is asked for. If
 * one is missing or corrupt, all of it is given up: a companion with a hole is worse than none. Throws CorruptError,
 * what {@link objectStream} throws, and what the store throws.
 */
async function* joinSegments(
  store: Store,
  segments: readonly SegmentSource[],
  options: JoinOptions,
): AsyncGenerator<Uint8Array> {
  // oxlint-disable-next-line no-await-in-loop -- in the order of the file
  for (const segment of segments) yield* bytesOf(store, segment, options);
}

async function* bytesOf(
  store: Store,
  { key, compressed, size, md5: expected }: SegmentSource,
  { decompress, ...options }: JoinOptions,
): AsyncGenerator<Uint8Array> {
  const stored = noteFailure(objectStream(store, key, { ...options, sizeHintBytes: size }));
  const md5 = newMd5();
  let at = 0;
  try {
    for await (const chunk of compressed ? orCorrupt(decompress(stored.body)) : stored.body) {
      at += chunk.length;
      // At once, not at the end: a frame can unfold to more than any disk holds.
      if (at > size)
        throw new CorruptError(`${key} is longer than the ${plural(size, 'byte')} of its record`);
      md5.update(chunk);
      yield chunk;
    }
  } catch (error) {
    // What the store threw comes first: a decompressor may have made another error of it.
    throw stored.failure() ?? error;
  }
  if (at < size) throw new CorruptError(`${key} has ${plural(at, 'byte')}, its record says ${size}`);
  if (md5.digest() !== expected) throw new CorruptError(`${key} has not the md5 of its record`);
}

/** A record is data from outside: a name in it must not reach out of the work directory, nor into `.capture`. */
function whyRefused(root: WorkDir, path: RelPath): string | undefined {
  if (!isInside(path)) return 'its name leads out of the work directory';
  const parents = path.split('/').slice(0, -1);
  if ((parents[0] ?? path) === OWN_DIR) return `its name lies in ${OWN_DIR}`;
  let dir = '';
  for (const part of parents) {
    dir = joinPath(dir, part);
    const stat = fs.lstatSync(absolutePath(root, dir), { throwIfNoEntry: false });
    if (stat === undefined) return undefined;
    if (!stat.isDirectory()) return `${dir} is ${stat.isSymbolicLink() ? 'a link' : 'no directory'}`;
  }
  return undefined;
}

/** Removes what interrupted restores have left. The caller holds the lock of the work directory. */
export function clearStaging(root: WorkDir): void {
  removeOwnDir(root, 'restore');
}
