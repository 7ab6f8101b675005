// One job of a worker, from the first look at the file to the answer. It never releases the last part before the file
// is proven unchanged.
import fs from 'node:fs';
import os from 'node:os';
import { isStoredAs, mayBeStoredAs } from '../model/file/baseline.ts';
import { sameContentFingerprint, sameFingerprint } from '../model/file/file-state.ts';
import { newMd5, type Md5 } from '../model/md5.ts';
import type { WorkDir } from '../native/beneath.ts';
import { factsOf } from '../native/files.ts';
import type { Buffers } from './buffers.ts';
import { partSizeBytes } from '../model/file/part-size.ts';
import { encode, type Compressor, type Encoded, type Encoding, type Parts } from './encode.ts';
import {
  SnapshotMoved,
  type BodyHead,
  type Proof,
  type ReadJob,
  type WorkerAnswer,
  type WorkerData,
  type WorkerRequest,
} from './reading.ts';
import {
  chunksOf,
  copyToMemory,
  copyToSpool,
  movedSince,
  openSnapshot,
  type Copy,
  type Snapshot,
} from './snapshot.ts';

/** The resources of a worker for a job. */
export interface Resources extends WorkerData {
  readonly root: WorkDir;
  readonly compressor: Compressor | undefined;
  readonly buffers: Buffers;
  /** Reused for each read(2). */
  readonly buffer: Uint8Array;
}

export type WholeFile = Exclude<WorkerRequest['work'], { kind: 'range' }>;

/** Answers a request for a whole file. Throws errors that are not a state of the file, and the signal's reason. */
export async function readFile(
  resources: Resources,
  { work, smallOnly, seen }: Omit<WorkerRequest, 'work' | 'root'> & { readonly work: WholeFile },
  outlet: Outlet,
  signal: AbortSignal,
): Promise<WorkerAnswer> {
  const { expected, held } = work.kind === 'read' ? work.job : {};
  const rules = { expected, held, seen, kernelRelease: os.release(), nowMs: Date.now() };
  const opened = openSnapshot(resources.root, work.job.path, rules);
  if (opened.kind !== 'open') return opened;
  const snapshot = work.kind === 'read' ? { ...opened, outlivesName: work.job.outlivesName } : opened;
  try {
    const { facts } = snapshot;
    if (smallOnly && isLarge(snapshot)) return { kind: 'large' };
    if (work.kind === 'read') return await read({ resources, snapshot, job: work.job, outlet, signal });
    const md5 = await digest(chunksOf(snapshot, resources.buffer, signal));
    return unmoved(snapshot) ?? { kind: 'md5', md5, facts };
  } catch (error) {
    if (error instanceof SnapshotMoved) return { kind: movedSince(snapshot) ?? 'moved' };
    throw error;
  } finally {
    fs.closeSync(snapshot.fd);
  }
}

/** The context of one reading of a file. */
interface ReadingContext {
  readonly resources: Resources;
  readonly snapshot: Snapshot;
  readonly job: ReadJob;
  readonly outlet: Outlet;
  readonly signal: AbortSignal;
}

async function read(pass: ReadingContext): Promise<WorkerAnswer> {
  const { resources, snapshot, job, signal } = pass;
  const { buffer, buffers } = resources;
  if (!isLarge(snapshot)) return sendCopy(pass, copyToMemory(snapshot, buffers, buffer.length), 'unused');
  if (!job.spoolFirst) return stream(pass, 'unused');
  const copy = await copyToSpool(snapshot, resources.spool, buffer, signal);
  return copy === undefined ? stream(pass, 'full') : sendCopy(pass, copy, 'used');
}

/** Sends a copy that was just taken. Closes it. */
async function sendCopy(pass: ReadingContext, copy: Copy, spool: BodyHead['spool']): Promise<WorkerAnswer> {
  const { snapshot, job, outlet, signal } = pass;
  const { facts } = snapshot;
  try {
    // The copy is proven here, at once. From now on the file may change.
    const obstacle = unmoved(snapshot);
    if (obstacle !== undefined && !isOnlyRenamed(snapshot)) return obstacle;
    const md5 = await digest(copy.chunks(signal));
    const late = obstacle && (await provenAgain(pass, md5));
    if (late !== undefined) return late;
    if (isStoredAs(job.baseline, facts, md5)) return { kind: 'unchanged', md5, facts };
    const encoded = await encode(copy.chunks(signal), encodingOf(pass));
    const given = await releaseParts(encoded, { facts, md5, spool }, outlet);
    return await releaseLast(given, { md5, facts }, outlet);
  } finally {
    copy.close();
  }
}

/** Reads the file itself while the parts are sent. */
async function stream(pass: ReadingContext, spool: BodyHead['spool']): Promise<WorkerAnswer> {
  const { resources, snapshot, job, outlet, signal } = pass;
  const { facts } = snapshot;
  const chunks = () => chunksOf(snapshot, resources.buffer, signal);
  // Content that may be unchanged is hashed first, so it is not compressed for nothing.
  const known = mayBeStoredAs(job.baseline, facts) ? await digest(chunks()) : undefined;
  if (known !== undefined && isStoredAs(job.baseline, facts, known))
    return unmoved(snapshot) ?? { kind: 'unchanged', md5: known, facts };
  const hash = newMd5();
  const encoded = await encode(hashed(chunks(), hash), encodingOf(pass));
  const given = await releaseParts(encoded, { facts, md5: known, spool }, outlet);
  // Proven now, not when the last part is requested: a slow link would only give the file time to change.
  const md5 = hash.digest();
  // Two passes over one state cannot differ. If they do, the file system hides changes.
  const isOther = known !== undefined && known !== md5;
  const obstacle = isOther ? ({ kind: 'moved' } as const) : await proven(pass, md5);
  if (obstacle !== undefined) {
    outlet.drop(given.last);
    return obstacle;
  }
  return releaseLast(given, { md5, facts }, outlet);
}

function isLarge({ facts: { size } }: Snapshot): boolean {
  return size > partSizeBytes(size);
}

function encodingOf({
  resources: { compressor, buffers },
  snapshot,
  job: { compression },
}: ReadingContext): Encoding {
  return { sizeBytes: snapshot.facts.size, compression, compressor, buffers };
}

type NotProven = { readonly kind: 'writer' | 'moved' };

/** Undefined if the bytes read, which have this md5, are one state of the file. */
async function proven(pass: ReadingContext, md5: string): Promise<NotProven | undefined> {
  const obstacle = unmoved(pass.snapshot);
  return obstacle !== undefined && isOnlyRenamed(pass.snapshot) ? provenAgain(pass, md5) : obstacle;
}

/**
 * During the reading the name was unlinked, replaced or renamed, or the mode changed. That changes the ctime
 * (inode(7)), and could hide a write. So the bytes are read once more. If they are the same, and nothing changes in
 * that time, they are the current state.
 */
async function provenAgain(
  { resources, snapshot, signal }: ReadingContext,
  md5: string,
): Promise<NotProven | undefined> {
  const now = { ...snapshot, facts: factsOf(snapshot.fd) };
  const again = await digest(chunksOf(now, resources.buffer, signal));
  return again === md5 ? unmoved(now) : { kind: 'moved' };
}

/** Only the ctime has changed. */
function isOnlyRenamed({ fd, facts }: Snapshot): boolean {
  const now = factsOf(fd);
  return sameContentFingerprint(now, facts) && !sameFingerprint(now, facts);
}

function unmoved(snapshot: Snapshot): { readonly kind: 'writer' | 'moved' } | undefined {
  const moved = movedSince(snapshot);
  return moved && { kind: moved };
}

export async function digest(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const md5 = newMd5();
  for await (const chunk of chunks) md5.update(chunk);
  return md5.digest();
}

/** Passes the chunks on, each through the md5 first. */
export async function* hashed(
  chunks: AsyncGenerator<Uint8Array, undefined>,
  md5: Md5,
): AsyncGenerator<Uint8Array, undefined> {
  for await (const chunk of chunks) {
    md5.update(chunk);
    yield chunk;
  }
}

/** The destination of the parts before the last. */
export interface Outlet {
  begin(head: BodyHead): void;
  /** Resolves when the part was sent and another one may be; rejects if the job is given up. */
  part(bytes: Uint8Array): Promise<void>;
  /** Resolves when a part may be sent. */
  ready(): Promise<void>;
  /** Takes back a part that is not sent after all. */
  drop(bytes: Uint8Array): void;
}

/** All parts that are released before the proof. */
interface ReleasedParts {
  readonly head: BodyHead;
  readonly isBegun: boolean;
  readonly last: Uint8Array;
  readonly storedBytes: number;
}

export async function releaseParts(
  { compressed, parts }: Encoded,
  about: Omit<BodyHead, 'compressed'>,
  outlet: Outlet,
): Promise<ReleasedParts> {
  const head = { ...about, compressed };
  let isBegun = false;
  let storedBytes = 0;
  const last = await eachPart(parts, async (part) => {
    if (!isBegun) outlet.begin(head);
    isBegun = true;
    storedBytes += part.length;
    await outlet.part(part);
  });
  return { head, isBegun, last, storedBytes: storedBytes + last.length };
}

/** The answer with the last part. Call it only when the bytes read are proven. */
export async function releaseLast(
  { head, isBegun, last: bytes, storedBytes }: ReleasedParts,
  about: Omit<Proof, 'storedBytes'>,
  outlet: Outlet,
): Promise<WorkerAnswer> {
  const proof = { ...about, storedBytes };
  try {
    if (isBegun) await outlet.ready();
  } catch (error) {
    outlet.drop(bytes);
    throw error;
  }
  const whole = isBegun ? undefined : { ...head, md5: proof.md5 };
  return { kind: 'end', head: whole, bytes, proof };
}

/** Passes every part but the last to `take`, and returns the last. */
async function eachPart(parts: Parts, take: (part: Uint8Array) => Promise<void>): Promise<Uint8Array> {
  try {
    for (;;) {
      const step = await parts.next();
      if (step.done === true) return step.value;
      await take(step.value);
    }
  } finally {
    // After an early end a compressor may still be at work.
    await parts.return(new Uint8Array(0));
  }
}
