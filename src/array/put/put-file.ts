// One file of a `capture put`. It is read twice: the first reading gives the md5, which says whether the store has the
// file already, and which the object carries; the second one is sent. Both must be of one state.
import type fs from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { errnoOf, reasonOf } from '../../model/errors.ts';
import { MIN_PART_BYTES, partSizeBytes } from '../../model/file/part-size.ts';
import { newMd5 } from '../../model/md5.ts';
import { ageMs } from '../../native/clock.ts';
import { writerState } from '../../native/files.ts';
import { openFile, StrangersLink } from '../../native/followed-links.ts';
import {
  exactly,
  type ObjectHead,
  type ObjectMeta,
  type Store,
  StoreError,
} from '../../store/contract/store.ts';
import type { LocalFile } from './local-files.ts';

export interface Putting {
  readonly store: Store;
  readonly replace: boolean;
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
  readonly onSent: (bytes: number) => void;
}

/** `present`: the store has it already. In a dry run, `stored` is what would be sent. */
export type Put = 'stored' | 'present' | { readonly why: string; readonly hint?: string };

/** Where leases do not work, a file that has not changed for this long counts as closed, as in a run. */
const AT_REST_MS = 1000;

const CHANGING = {
  why: 'a process has it open for writing',
  hint: 'wait until it is closed, and put it again',
} as const;
const CHANGED = {
  why: 'it changed while it was read',
  hint: 'wait until its writer has closed it, and put it again',
} as const;
const CHANGED_LATELY = {
  why: `it changed less than ${AT_REST_MS / 1000} s ago, and the kernel does not show who has it open`,
  hint: 'wait until its writer has closed it, and put it again',
} as const;
const DIFFERS = {
  why: 'another object has its name, with other bytes',
  hint: '--replace replaces it',
} as const;

/** Thrown into the put, which is then given up. */
class Changed extends Error {}

/** Throws the store's errors. */
export async function putFile(putting: Putting, { path, key }: LocalFile): Promise<Put> {
  const { store, signal } = putting;
  let file: fs.FileHandle | undefined;
  try {
    ({ file } = await openFile(path, { links: 'followed', trusted: undefined }));
    if (!(await file.stat()).isFile()) return { why: 'it is no file' };
    const writer = writerState(file.fd);
    if (writer === 'writer') return CHANGING;
    if (writer === 'unknown' && !(await isAtRest(file, signal))) return CHANGED_LATELY;
    const seen = await md5OfFile(file, signal);
    if (seen === undefined) return CHANGED;
    const head = await store.head(key, signal);
    if (head !== undefined && (await isSame(store, head, seen, signal))) return 'present';
    if (head !== undefined && !putting.replace) return DIFFERS;
    if (putting.dryRun) return 'stored';
    return await send(putting, file, { key, head, seen });
  } catch (error) {
    if (error instanceof Changed) return CHANGED;
    if (error instanceof StrangersLink) return { why: error.message, hint: error.hint };
    // The store's errors have a class of their own.
    if (errnoOf(error) !== undefined && !(error instanceof StoreError)) return { why: reasonOf(error) };
    throw error;
  } finally {
    await file?.close();
  }
}

/** Any write changes the ctime (inode(7)). Waits if the last change is too young, or the clock of a file server is ahead. */
async function isAtRest(file: fs.FileHandle, signal: AbortSignal): Promise<boolean> {
  const before = await file.stat({ bigint: true });
  const leftMs = AT_REST_MS - ageMs(Number(before.ctimeNs / 1_000_000n));
  if (leftMs <= 0) return true;
  await pause(Math.min(leftMs, AT_REST_MS), undefined, { signal });
  return stateOf(await file.stat({ bigint: true })) === stateOf(before);
}

interface Seen {
  readonly md5: string;
  readonly sizeBytes: number;
  readonly meta: ObjectMeta;
  readonly state: string;
}

async function send(
  { store, signal, onSent }: Putting,
  file: fs.FileHandle,
  { key, head, seen }: { readonly key: string; readonly head: ObjectHead | undefined; readonly seen: Seen },
): Promise<Put> {
  const { md5, sizeBytes, meta } = seen;
  const parts = provenParts(file, seen);
  const first = sizeBytes <= MIN_PART_BYTES ? await parts.next() : undefined;
  const body = first === undefined ? parts : (first.value ?? new Uint8Array());
  const outcome = await store.put(key, body, { meta, precondition: exactly(head), md5, signal, onSent });
  return outcome.kind === 'stored' ? 'stored' : DIFFERS;
}

/** Undefined if the file changed meanwhile. */
async function md5OfFile(file: fs.FileHandle, signal: AbortSignal): Promise<Seen | undefined> {
  const stat = await file.stat({ bigint: true });
  const state = stateOf(stat);
  const sum = newMd5();
  let sizeBytes = 0;
  for await (const chunk of chunksOf(file, READ_BYTES)) {
    signal.throwIfAborted();
    sum.update(chunk);
    sizeBytes += chunk.byteLength;
  }
  if (stateOf(await file.stat({ bigint: true })) !== state || BigInt(sizeBytes) !== stat.size)
    return undefined;
  const md5 = sum.digest();
  const meta = {
    push: randomUUID(),
    size: String(sizeBytes),
    mtime: String(stat.mtimeNs),
    mode: (Number(stat.mode) & 0o777).toString(8),
    capture: CAPTURE_VERSION,
    md5,
  };
  return { md5, sizeBytes, meta, state };
}

/** The last part is yielded only if all bytes are those of the first reading. */
async function* provenParts(
  file: fs.FileHandle,
  { md5, sizeBytes, state }: Seen,
): AsyncGenerator<Uint8Array> {
  const sum = newMd5();
  let held: Uint8Array | undefined;
  let read = 0;
  for await (const part of chunksOf(file, partSizeBytes(sizeBytes))) {
    if (held !== undefined) yield held;
    held = part;
    sum.update(part);
    read += part.byteLength;
    if (read > sizeBytes) throw new Changed();
  }
  const isStill = stateOf(await file.stat({ bigint: true })) === state && writerState(file.fd) !== 'writer';
  if (sum.digest() !== md5 || !isStill) throw new Changed();
  if (held !== undefined) yield held;
}

const READ_BYTES = 2 ** 20;

/** From the beginning of the file, each in memory of its own and, but for the last one, of this size. */
async function* chunksOf(file: fs.FileHandle, bytes: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; ;) {
    const chunk = Buffer.allocUnsafe(bytes);
    let filled = 0;
    while (filled < bytes) {
      const { bytesRead } = await file.read(chunk, filled, bytes - filled, at + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    if (filled > 0) yield chunk.subarray(0, filled);
    if (filled < bytes) return;
    at += filled;
  }
}

function stateOf({ size, mtimeNs, ctimeNs }: { size: bigint; mtimeNs: bigint; ctimeNs: bigint }): string {
  return `${size} ${mtimeNs} ${ctimeNs}`;
}

/** An object of another program may have no md5 that is known to be one: then it is read. */
async function isSame(
  store: Store,
  { key, sizeBytes, meta }: ObjectHead,
  seen: Seen,
  signal: AbortSignal,
): Promise<boolean> {
  if (sizeBytes !== seen.sizeBytes) return false;
  if (meta['md5'] !== undefined) return meta['md5'] === seen.md5;
  for await (const listed of store.list(key, signal)) {
    if (listed.key === key && listed.md5 === seen.md5) return true;
    break;
  }
  const sum = newMd5();
  const got = await store.get(key, { signal });
  for await (const chunk of got?.body ?? []) sum.update(chunk);
  return sum.digest() === seen.md5;
}
