// One job of a worker from its first look at the file to its answer. Never lets the last part out before the
// file is proven unchanged.
import fs from 'node:fs';
import os from 'node:os';
import { sameContentFingerprint, sameFingerprint } from '../model/file/file-state.ts';
import { newMd5, type Md5 } from '../model/md5.ts';
import type { WorkDir } from '../native/beneath.ts';
import { factsOf } from '../native/files.ts';
import type { Buffers } from './buffers.ts';
import { encode, partSizeBytes, type Compressor, type Encoded, type Encoding, type Parts } from './encode.ts';
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

/** What a worker has for a job. */
export interface Resources extends WorkerData {
  readonly root: WorkDir;
  readonly compressor: Compressor | undefined;
  readonly buffers: Buffers;
  /** For one read(2) after the other. */
  readonly buffer: Uint8Array;
}

export type WholeFile = Exclude<WorkerRequest['work'], { kind: 'range' }>;

/** Answers a request for a whole file. Throws what is no state of the file, and the signal's reason. */
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

/** What one reading of a file works with. */
interface Pass {
  readonly resources: Resources;
  readonly snapshot: Snapshot;
  readonly job: ReadJob;
  readonly outlet: Outlet;
  readonly signal: AbortSignal;
}

async function read(pass: Pass): Promise<WorkerAnswer> {
  const { resources, snapshot, job, signal } = pass;
  const { buffer, buffers } = resources;
  if (!isLarge(snapshot)) return sendCopy(pass, copyToMemory(snapshot, buffers, buffer.length), 'unused');
  if (!job.spoolFirst) return stream(pass, 'unused');
  const copy = await copyToSpool(snapshot, resources.spool, buffer, signal);
  return copy === undefined ? stream(pass, 'full') : sendCopy(pass, copy, 'used');
}

/** Sends a copy that was taken just now. Closes it. */
async function sendCopy(pass: Pass, copy: Copy, spool: BodyHead['spool']): Promise<WorkerAnswer> {
  const { snapshot, job, outlet, signal } = pass;
  const { facts } = snapshot;
  try {
    // The copy is proven here and at once. From now on the file may change.
    const obstacle = unmoved(snapshot);
    if (obstacle !== undefined && !isOnlyRenamed(snapshot)) return obstacle;
    const md5 = await digest(copy.chunks(signal));
    const late = obstacle && (await provenAgain(pass, md5));
    if (late !== undefined) return late;
    if (job.baseline?.size === facts.size && job.baseline.md5 === md5)
      return { kind: 'unchanged', md5, facts };
    const encoded = await encode(copy.chunks(signal), encodingOf(pass));
    const given = await giveParts(encoded, { facts, md5, spool }, outlet);
    return await giveLast(given, { md5, facts }, outlet);
  } finally {
    copy.close();
  }
}

/** Reads the file itself as the parts are sent. */
async function stream(pass: Pass, spool: BodyHead['spool']): Promise<WorkerAnswer> {
  const { resources, snapshot, job, outlet, signal } = pass;
  const { facts } = snapshot;
  const chunks = () => chunksOf(snapshot, resources.buffer, signal);
  // What may be unchanged is not compressed for nothing.
  const known = job.baseline?.size === facts.size ? await digest(chunks()) : undefined;
  if (known !== undefined && known === job.baseline?.md5)
    return unmoved(snapshot) ?? { kind: 'unchanged', md5: known, facts };
  const hash = newMd5();
  const encoded = await encode(hashed(chunks(), hash), encodingOf(pass));
  const given = await giveParts(encoded, { facts, md5: known, spool }, outlet);
  // Proven at once, not when the last part is wanted: a slow link would only give the file time to move.
  const md5 = hash.digest();
  // Two passes over one state cannot differ; if they do, the file system hides changes from us.
  const isOther = known !== undefined && known !== md5;
  const obstacle = isOther ? ({ kind: 'moved' } as const) : await proven(pass, md5);
  if (obstacle !== undefined) {
    outlet.drop(given.last);
    return obstacle;
  }
  return giveLast(given, { md5, facts }, outlet);
}

function isLarge({ facts: { size } }: Snapshot): boolean {
  return size > partSizeBytes(size);
}

function encodingOf({ resources: { compressor, buffers }, snapshot, job: { compression } }: Pass): Encoding {
  return { sizeBytes: snapshot.facts.size, compression, compressor, buffers };
}

type NotProven = { readonly kind: 'writer' | 'moved' };

/** What was read, with this md5, is one state of the file: undefined. */
async function proven(pass: Pass, md5: string): Promise<NotProven | undefined> {
  const obstacle = unmoved(pass.snapshot);
  return obstacle !== undefined && isOnlyRenamed(pass.snapshot) ? provenAgain(pass, md5) : obstacle;
}

/**
 * The name was unlinked, replaced or renamed while we read, or the mode changed: that moves the ctime (inode(7)), and
 * hides what else might have. So the bytes are read once more. If they are the same, and nothing moves meanwhile, what
 * was read is the state of this moment.
 */
async function provenAgain(
  { resources, snapshot, signal }: Pass,
  md5: string,
): Promise<NotProven | undefined> {
  const now = { ...snapshot, facts: factsOf(snapshot.fd) };
  const again = await digest(chunksOf(now, resources.buffer, signal));
  return again === md5 ? unmoved(now) : { kind: 'moved' };
}

/** Nothing but the ctime has changed. */
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

/** The chunks as they are, each through the md5 first. */
export async function* hashed(
  chunks: AsyncGenerator<Uint8Array, undefined>,
  md5: Md5,
): AsyncGenerator<Uint8Array, undefined> {
  for await (const chunk of chunks) {
    md5.update(chunk);
    yield chunk;
  }
}

/** Where the parts before the last go. */
export interface Outlet {
  begin(head: BodyHead): void;
  /** Resolves when the part was sent and one more may be; rejects when the job is given up. */
  part(bytes: Uint8Array): Promise<void>;
  /** Resolves when a part may be sent. */
  ready(): Promise<void>;
  /** Takes a part that is not sent after all. */
  drop(bytes: Uint8Array): void;
}

/** All that is given out before the proof. */
interface Given {
  readonly head: BodyHead;
  readonly isBegun: boolean;
  readonly last: Uint8Array;
  readonly storedBytes: number;
}

export async function giveParts(
  { compressed, parts }: Encoded,
  about: Omit<BodyHead, 'compressed'>,
  outlet: Outlet,
): Promise<Given> {
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

/** The answer with the last part. To be asked for only when what was read is proven. */
export async function giveLast(
  { head, isBegun, last: bytes, storedBytes }: Given,
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

/** Hands every part but the last to `take`, and returns the last. */
async function eachPart(parts: Parts, take: (part: Uint8Array) => Promise<void>): Promise<Uint8Array> {
  try {
    for (;;) {
      const step = await parts.next();
      if (step.done === true) return step.value;
      await take(step.value);
    }
  } finally {
    // What was given up in the middle still has a compressor at work.
    await parts.return(new Uint8Array(0));
  }
}
