// Downloads the files of a restore into temporary files in `.capture/restore/`, and checks each against its record.
// Nothing appears in the work directory before place.ts has seen that all of them are whole.
import fs from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import pLimit from 'p-limit';
import { CaptureError, errnoOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import type { FileProgress } from '../model/format/progress-line.ts';
import { newMd5 } from '../model/md5.ts';
import { isInside, type RelPath } from '../model/path.ts';
import { formatBytes, plural } from '../model/units.ts';
import { linkSignals } from '../model/waiting.ts';
import { holdDirectory, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { freeBytesIn } from '../native/disk-use.ts';
import { absolutePath, ownDir, removeBeneath } from '../native/own-dir.ts';
import type { ObjectHead, Store } from '../store/contract/store.ts';
import { CorruptError, noteFailure, orCorrupt } from './failure.ts';
import { objectStream, RANGE_BYTES, type StreamOptions } from './object-stream.ts';
import type { SegmentSource, Source } from './source.ts';
import { type Fetched, type Incoming, PERMISSION_BITS, stage } from './staging.ts';

export interface FetchOptions {
  readonly signal: AbortSignal;
  /** How many small files at once, and how many ranges of a large file at once (8 MiB of memory each). */
  readonly parallel: number;
  readonly decompress: Incoming['decompress'];
  /** Called for each file; reports its progress. */
  readonly progress?: () => FileProgress;
  readonly syncedLater?: Incoming['syncedLater'];
}

/** Downloads that wait to be placed. */
export interface Staged {
  /** In the order of the sources. */
  readonly files: readonly Fetched[];
  /** All of them are `ok`. */
  readonly whole: boolean;
  /** Removes the files that were not placed. */
  close(): Promise<void>;
}

/**
 * Fetches all sources. A problem with one file is in its result. Throws if the store or the work directory fails,
 * after all downloads have stopped and the temporary files are removed.
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
  // One large file at a time fills the link with its ranges; small files share the link with it.
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
 * Better not to start than to fill the work directory with half a checkpoint. Throws if the known sizes do not fit.
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

/** How often an object is read from its beginning if somebody replaces it during each reading. */
const MOST_TRIES = 3;

/** Fetches one file to `temp`, an unused name in the same file system. */
export async function fetchFile(
  place: { readonly store: Store; readonly root: WorkDir },
  source: Source,
  temp: RelPath,
  options: FetchOptions,
): Promise<Fetched> {
  const why = whyRefused(place.root, source.path);
  if (why !== undefined) return { kind: 'refused', source, why };
  for (let tries = 1; ; tries += 1) {
    options.signal.throwIfAborted();
    // oxlint-disable-next-line no-await-in-loop -- anew, if somebody has replaced it meanwhile
    const fetched = await fetchOnce(place, source, temp, options);
    if (fetched.kind !== 'corrupt' || fetched.isReplaced !== true || tries === MOST_TRIES) return fetched;
  }
}

async function fetchOnce(
  { store, root }: { readonly store: Store; readonly root: WorkDir },
  source: Source,
  temp: RelPath,
  { signal, parallel, decompress, progress, syncedLater }: FetchOptions,
): Promise<Fetched> {
  let given = PERMISSION_BITS;
  const onObject = ({ permissions = PERMISSION_BITS }: Pick<ObjectHead, 'permissions'>): void =>
    void (given &= permissions);
  const body =
    source.segments === undefined
      ? objectStream(store, source.key, {
          parallel,
          sizeHintBytes: source.size,
          isAsStored: source.isAsStored,
          signal,
          onObject,
        })
      : joinSegments(store, source.segments, { parallel, decompress, signal, onObject });
  const permissions = (): number => given;
  return stage(root, source, temp, { body, permissions, decompress, progress: progress?.(), syncedLater });
}

export interface JoinOptions extends Omit<StreamOptions, 'sizeHintBytes'> {
  readonly decompress: (stored: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
}

/**
 * The bytes of a fully recorded file, as they arrive. Only the end proves them: throws CorruptError if they differ
 * from the record, any error of {@link objectStream}, and any error of the store.
 */
export function recordedBytes(
  store: Store,
  { segments, ...file }: SegmentSource & Pick<Source, 'segments'>,
  options: JoinOptions,
): AsyncGenerator<Uint8Array> {
  return segments === undefined ? bytesOf(store, file, options) : joinSegments(store, segments, options);
}

/**
 * All bytes of a companion, joined from its segments. Each segment is checked against its record before the next one
 * is requested. If one is missing or corrupt, the whole companion is given up: one with a hole is worse than none.
 * Throws CorruptError, any error of {@link objectStream}, and any error of the store.
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
      // At once, not at the end: a frame can expand to more than any disk holds.
      if (at > size)
        throw new CorruptError(`${key} is longer than the ${plural(size, 'byte')} of its record`);
      md5.update(chunk);
      yield chunk;
    }
  } catch (error) {
    // The store's error comes first: the decompressor may have turned it into another one.
    throw stored.failure() ?? error;
  }
  if (at < size) throw new CorruptError(`${key} has ${plural(at, 'byte')}, its record says ${size}`);
  if (md5.digest() !== expected) throw new CorruptError(`${key} has not the md5 of its record`);
}

/** A record is foreign data: a path in it must not lead out of the work directory, nor into `.capture`. */
function whyRefused(root: WorkDir, path: RelPath): string | undefined {
  if (!isInside(path)) return 'its name leads out of the work directory';
  const parts = path.split('/');
  if (parts[0] === OWN_DIR) return `its name lies in ${OWN_DIR}`;
  for (const at of parts.keys()) {
    const upTo = parts.slice(0, at + 1).join('/');
    const stat = lstatOf(root, upTo);
    if (stat === 'too long') return TOO_LONG;
    if (stat === undefined || upTo === path) return undefined;
    if (!stat.isDirectory()) return `${upTo} is ${stat.isSymbolicLink() ? 'a link' : 'no directory'}`;
  }
  return undefined;
}

const TOO_LONG = 'its name is too long for the file system';

function lstatOf(root: WorkDir, path: RelPath): fs.Stats | 'too long' | undefined {
  try {
    return fs.lstatSync(absolutePath(root, path), { throwIfNoEntry: false });
  } catch (error) {
    if (errnoOf(error) === 'ENAMETOOLONG') return 'too long';
    throw error;
  }
}

/** Removes the remains of interrupted restores. The caller holds the lock of the work directory. */
export function clearStaging(root: WorkDir): Promise<void> {
  return removeBeneath(root, `${OWN_DIR}/restore`);
}
