// Is the object under a result's key still the one in its record? It may not be: an attempt may die between a push and
// its record, or stall and wake up after a later attempt has pushed the same key; or somebody may have deleted or
// truncated the object. Compares push ids and sizes, and never says that all is stored if it could not look.
import type { History } from '../../model/checkpoint/history.ts';
import { reasonOf } from '../../model/errors.ts';
import { TIME_NS } from '../../model/file/file-state.ts';
import {
  isCompressedKey,
  type KeyScope,
  parsePartial,
  partialPrefix,
  resultKey,
} from '../../model/format/keys.ts';
import { isLast, type LeftFile, type StoredFile } from '../../model/format/records.ts';
import { newMd5 } from '../../model/md5.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { forEachAtOnce, whileLinked } from '../../model/waiting.ts';
import { decompressStream } from '../../restore/decompress.ts';
import { objectStream } from '../../restore/object-stream.ts';
import { type ObjectHead, type ObjectMeta, type Store, StoreError } from '../../store/contract/store.ts';
import type { Needs } from '../run/context.ts';
import type { Files } from './files.ts';

type ResultContext = Needs<
  'manifest' | 'scope' | 'store' | 'log' | 'attempt' | 'history' | 'ledger' | 'baselines' | 'paths' | 'signal'
>;

/** A look costs a round trip and no bytes. */
const LOOKS_AT_ONCE = 16;

/** True if an earlier attempt never recorded how it ended: it may be dead, or only stalled. */
export function mayBeOverwritten({ attempts }: History): boolean {
  return attempts.some(({ kind }) => !isLast(kind));
}

/** True if the object of a result is not the one that was pushed, or was truncated. */
export async function isOverwritten({ store, signal }: ResultContext, file: StoredFile): Promise<boolean> {
  return !isObjectOf(file, await store.head(file.key, signal));
}

/** True if the put in the record made this object. S3 changes metadata only together with the object. */
function isObjectOf({ push, storedSize }: StoredFile, head: ObjectHead | undefined): boolean {
  if (head?.meta['push'] !== push) return false;
  return storedSize === undefined || head.sizeBytes === storedSize;
}

/** What a push has stored beside the bytes; without the md5 if it was not known before they were sent. */
export type WholeObject = Omit<StoredFile, 'md5'> & Partial<Pick<StoredFile, 'md5'>>;

/** The whole object under the key of `file`; `file` itself if it is the object in the record. */
export async function storedNow(
  store: Store,
  file: StoredFile,
  signal: AbortSignal,
): Promise<WholeObject | undefined> {
  const head = await store.head(file.key, signal);
  if (head === undefined) return undefined;
  if (isObjectOf(file, head)) return file;
  // The object was truncated, and still carries the metadata of the whole one.
  if (head.meta['push'] === file.push) return undefined;
  return { ...file, md5: undefined, storedSize: head.sizeBytes, ...factsOfMeta(head.meta) };
}

export interface UnrecordedSearch {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly history: History;
  readonly signal: AbortSignal;
}

/**
 * The object under a result's own name, if an attempt of this index put it there and died before it could record it.
 * `wants`: the object that is looked for.
 */
export async function unrecordedResult(
  { store, scope, history, signal }: UnrecordedSearch,
  path: RelPath,
  wants: (there: WholeObject) => boolean = () => true,
): Promise<StoredFile | undefined> {
  const ofRun = history.attempts.filter(({ sameRun }) => sameRun);
  const attempts = new Map(ofRun.map((end) => [end.runToken, end.attempt]));
  for (const compressed of [true, false]) {
    const key = resultKey(path, scope, compressed);
    const head = await store.head(key, signal);
    const by = attempts.get(head?.meta['run'] ?? '');
    if (head === undefined || by === undefined) continue;
    const there = wholeOf(head, { path, key, attempt: by, compressed });
    const whole = there !== undefined && wants(there) ? await withMd5(store, there, signal) : undefined;
    if (whole !== undefined) return whole;
  }
  return undefined;
}

/** What an object that no record names says about itself; undefined if no run put it here. */
function wholeOf(
  { meta, sizeBytes }: ObjectHead,
  place: Pick<StoredFile, 'path' | 'key' | 'attempt' | 'compressed'>,
): WholeObject | undefined {
  const { push, size, mtimeNs, mode, kind = 'file', md5 } = factsOfMeta(meta);
  if (push === undefined || size === undefined || mtimeNs === undefined || mode === undefined)
    return undefined;
  return { ...place, kind, push, size, mtimeNs, mode, md5, storedSize: sizeBytes };
}

/**
 * The same object with its md5. A large object does not carry it, because its metadata were sent first: then the whole
 * object is read. Undefined if it is not whole.
 */
export async function withMd5(
  store: Store,
  there: WholeObject,
  signal: AbortSignal,
): Promise<StoredFile | undefined> {
  if (there.md5 !== undefined) return { ...there, md5: there.md5 };
  const md5 = newMd5();
  let bytes = 0;
  try {
    for await (const piece of contentOf(store, there, signal)) {
      md5.update(piece);
      bytes += piece.length;
      if (bytes > there.size) return undefined;
    }
  } catch (error) {
    if (error instanceof StoreError || signal.aborted) throw error;
    return undefined; // broken frames, or gone
  }
  return bytes === there.size ? { ...there, md5: md5.digest() } : undefined;
}

/** The bytes of the file, decompressed. Throws where the object is gone or damaged. */
function contentOf(
  store: Store,
  { key, storedSize, compressed }: Pick<WholeObject, 'key' | 'storedSize' | 'compressed'>,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  const body = objectStream(store, key, { parallel: 1, sizeHintBytes: storedSize, signal });
  return compressed ? decompressStream(body) : body;
}

/** True if the stored result begins with these bytes: then it lacks nothing of them. */
export async function beginsWith(
  store: Store,
  result: StoredFile,
  { md5, ...part }: StoredFile,
  signal: AbortSignal,
): Promise<boolean> {
  if (result.size < part.size) return false;
  const first = newMd5();
  let leftBytes = part.size;
  for await (const piece of contentOf(store, result, signal)) {
    first.update(piece.subarray(0, leftBytes));
    leftBytes -= Math.min(leftBytes, piece.length);
    if (leftBytes === 0) break;
  }
  const wanted = await withMd5(store, { ...part, md5: md5 === '' ? undefined : md5 }, signal);
  return leftBytes === 0 && first.digest() === wanted?.md5;
}

/**
 * The partial key to which the attempt that stored the result has moved its object, because a dying process may have
 * cut it short: that attempt was killed before a record said so. Undefined if there is no such object.
 */
export async function movedTo(
  store: Store,
  scope: KeyScope,
  { path, attempt, compressed, push }: StoredFile,
  signal: AbortSignal,
): Promise<string | undefined> {
  const prefix = partialPrefix(path, scope);
  for await (const { key } of store.list(prefix, signal)) {
    if (parsePartial(key.slice(prefix.length)) !== attempt || isCompressedKey(key) !== compressed) continue;
    const head = await store.head(key, signal);
    if (head?.meta['push'] === push) return key;
  }
  return undefined;
}

/** The facts that a push has written into the metadata. */
export function factsOfMeta(meta: ObjectMeta): Partial<StoredFile> {
  const { push, md5, size = '', mtime: mtimeNs = '', mode = '' } = meta;
  return {
    kind: meta['link'] === '1' ? 'link' : 'file',
    ...(push === undefined ? {} : { push }),
    ...(md5 === undefined ? {} : { md5 }),
    ...(/^\d+$/.test(size) ? { size: Number(size) } : {}),
    ...(TIME_NS.test(mtimeNs) ? { mtimeNs } : {}),
    ...(/^[0-7]{1,4}$/.test(mode) ? { mode: Number.parseInt(mode, 8) } : {}),
  };
}

export interface LookOptions {
  readonly files: Files;
  /** True for results whose object this attempt has pushed or looked at. */
  readonly isConfirmed: (path: RelPath) => boolean;
  /** True only if the record may become `done`: then results that earlier attempts stored are looked for, too. */
  readonly withEarlier: boolean;
  readonly deadline: AbortSignal;
}

/**
 * Before the last record: pushes again the results that are missing from the store and still in the work directory, and
 * notes results that an earlier attempt pushed and did not record. Resolves to the results that could not be pushed.
 */
export async function pushOverwritten(
  context: ResultContext,
  { files, isConfirmed, withEarlier, deadline }: LookOptions,
): Promise<readonly LeftFile[]> {
  const { history, ledger, baselines, manifest, log, scope, store, attempt, signal } = context;
  const isDoubtful = mayBeOverwritten(history);
  const isEarlier = (file: StoredFile): boolean =>
    withEarlier && file.attempt < attempt && !isConfirmed(file.path) && manifest.rolesOf(file.path).result;
  const left: LeftFile[] = [];
  const again: StoredFile[] = [];
  const look = async (file: StoredFile): Promise<void> => {
    if (!isDoubtful && !isEarlier(file)) return;
    try {
      const there = await whileLinked([deadline, signal], (either) => storedNow(store, file, either));
      if (there === file) return;
      if (files.get(file.path, 'result')?.durable !== undefined) return void again.push(file);
      // An object without a push id is nobody's result.
      const whole =
        there === undefined || there.push === file.push
          ? undefined
          : await whileLinked([deadline, signal], (either) => withMd5(store, there, either));
      if (whole !== undefined) return ledger.noteFound(whole);
      if (!isEarlier(file)) return;
      const partial =
        there === undefined
          ? await whileLinked([deadline, signal], (either) => movedTo(store, scope, file, either))
          : undefined;
      if (partial !== undefined) ledger.notePartial({ ...file, key: partial, suspect: true });
      else left.push({ path: file.path, why: whyGone(file, there) });
    } catch (error) {
      left.push({ path: file.path, why: `it is unknown whether it is still stored: ${reasonOf(error)}` });
    }
  };
  // Lazily, because there may be very many.
  await forEachAtOnce(ledger.results.values(), LOOKS_AT_ONCE, look);
  for (const { path } of again) {
    log.warn(`${showPath(path)} was replaced in the store, or is gone from it: it is pushed again`);
    baselines.delete(path);
    files.want(path, 'result');
  }
  await files.drained(deadline);
  for (const { path, push } of again) {
    if (ledger.results.get(path)?.push !== push) continue;
    left.push({ path, why: 'it was replaced in the store, or is gone from it, and it is not here any more' });
  }
  return left;
}

function whyGone({ attempt }: StoredFile, there: WholeObject | undefined): string {
  const what = there === undefined ? 'is gone or cut short' : 'is another one now';
  return `attempt ${attempt} stored it, its object ${what}, and it is not here`;
}

/**
 * Looks for the object of a result that was written again with the same content; `known` is what an earlier attempt
 * stored. False if the object is missing or differs: then this content must be pushed.
 */
export async function isStillStored(context: ResultContext, known: StoredFile): Promise<boolean> {
  if (!(await isOverwritten(context, known))) return true;
  const { path, attempt } = known;
  context.log.warn(
    `${showPath(path)} that attempt ${attempt} stored is gone from the store, or was changed in it: it is pushed again`,
  );
  context.baselines.delete(path);
  return false;
}
