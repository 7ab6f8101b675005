// One job of a worker from its first look at the file to its answer. Never lets the last part out before the
// file is proven unchanged.
import fs from 'node:fs';
import os from 'node:os';
import { createMd5, type Md5 } from '../model/md5.ts';
import type { Compressor } from './compressor.ts';
import { encode } from './encode.ts';
import { pathOf } from './job.ts';
import type { PartBuffers } from './part-buffers.ts';
import { partSizeBytes, type Parts } from './parts.ts';
import type { Bytes } from './reading.ts';
import type { BodyHead, ReadJob } from './reading.ts';
import { SnapshotMoved } from './snapshot-moved.ts';
import { chunksOf, movedSince, openSnapshot, type Snapshot } from './snapshot.ts';
import { openSpool, type Spool } from './spool.ts';
import type { WorkerAnswer, WorkerData, WorkerRequest } from './worker-messages.ts';

/** What a worker has for all its jobs. */
export interface Bench extends WorkerData {
  readonly compressor: Compressor | undefined;
  readonly buffers: PartBuffers;
  /** For one read(2) after the other. */
  readonly buffer: Uint8Array;
}

/** Where the parts before the last go. */
export interface Outlet {
  begin(head: BodyHead): void;
  /** Resolves when the part was sent and one more may be; rejects when the job is given up. */
  part(bytes: Bytes): Promise<void>;
  /** Resolves when a part may be sent. */
  ready(): Promise<void>;
}

export type WholeFile = Exclude<WorkerRequest['work'], { kind: 'range' }>;

/** Answers a request for a whole file. Throws what is no state of the file, and the signal's reason. */
export async function readFile(
  bench: Bench,
  { work, smallOnly, seen }: Omit<WorkerRequest, 'work'> & { readonly work: WholeFile },
  outlet: Outlet,
  signal: AbortSignal,
): Promise<WorkerAnswer> {
  const expected = work.kind === 'read' ? work.job.expected : undefined;
  const rules = { expected, seen, kernelRelease: os.release(), nowMs: Date.now() };
  const snapshot = openSnapshot(bench.root, pathOf({ work }), rules);
  if (snapshot.kind !== 'open') return snapshot;
  try {
    const { size } = snapshot.facts;
    if (smallOnly && size > partSizeBytes(size)) return { kind: 'large' };
    if (work.kind === 'read') return await read({ bench, snapshot, job: work.job, outlet, signal });
    const md5 = await digest(bench, snapshot, signal);
    return unmoved(snapshot) ?? { kind: 'md5', md5, facts: snapshot.facts };
  } catch (error) {
    if (error instanceof SnapshotMoved) return { kind: movedSince(snapshot) ?? 'moved' };
    throw error;
  } finally {
    fs.closeSync(snapshot.fd);
  }
}

async function read(work: Omit<Pass, 'known'>): Promise<WorkerAnswer> {
  const { bench, snapshot, job, signal } = work;
  const { facts } = snapshot;
  let known: string | undefined;
  // A small file is hashed on its one way through; a large one that may be unchanged is not compressed for nothing.
  if (job.baseline?.size === facts.size && facts.size > partSizeBytes(facts.size)) {
    known = await digest(bench, snapshot, signal);
    if (known === job.baseline.md5) return unmoved(snapshot) ?? { kind: 'unchanged', md5: known, facts };
  }
  const pass: Pass = { ...work, known };
  if (!job.spoolFirst) return stream(pass, 'unused');
  return (await spoolThenSend(pass)) ?? stream(pass, 'full');
}

/** What one pass over the file works with. `known`: its md5, when an earlier pass found it. */
interface Pass {
  readonly bench: Bench;
  readonly snapshot: Snapshot;
  readonly job: ReadJob;
  readonly known: string | undefined;
  readonly outlet: Outlet;
  readonly signal: AbortSignal;
}

async function stream(pass: Pass, spool: BodyHead['spool']): Promise<WorkerAnswer> {
  const { snapshot, outlet, known } = pass;
  const { encoded, md5 } = await startEncoding(pass);
  const head = { facts: snapshot.facts, compressed: encoded.compressed, spool };
  let isBegun = false;
  let storedBytes = 0;
  const last = await eachPart(encoded.parts, async (part) => {
    if (!isBegun) outlet.begin({ ...head, md5: known, sizeHintBytes: encoded.sizeHintBytes });
    isBegun = true;
    storedBytes += part.length;
    await outlet.part(part);
  });
  storedBytes += last.length;
  // Proven at once, not when the last part is wanted: a slow link would only give the file time to move.
  const answer = finish(pass, { md5: md5.digest(), last, storedBytes }, isBegun ? undefined : head);
  if (isBegun && answer.kind === 'end') await outlet.ready();
  return answer;
}

/** Undefined when the spool has no room: then nothing has been given out. */
async function spoolThenSend(pass: Pass): Promise<WorkerAnswer | undefined> {
  const { bench, snapshot, outlet } = pass;
  const { encoded, md5 } = await startEncoding(pass);
  const head = { facts: snapshot.facts, compressed: encoded.compressed, spool: 'used' as const };
  let spool: Spool | undefined;
  try {
    let storedBytes = 0;
    const last = await eachPart(encoded.parts, (part) => {
      spool ??= bench.spool && openSpool(bench.spool.dir, bench.spool.limitBytes);
      if (spool?.append(part) !== true) throw new NoRoom();
      bench.buffers.giveBack(part);
      storedBytes += part.length;
    });
    storedBytes += last.length;
    // What is one part needs no disk: it is as private in memory.
    if (spool === undefined) return finish(pass, { md5: md5.digest(), last, storedBytes }, head);
    if (!spool.append(last)) throw new NoRoom();
    const answer = finish(pass, { md5: md5.digest(), last, storedBytes });
    if (answer.kind !== 'end') return answer;
    outlet.begin({ ...head, md5: answer.proof.md5, sizeHintBytes: storedBytes });
    const bytes = await eachPart(spool.parts(partSizeBytes(snapshot.facts.size), bench.buffers), (part) =>
      outlet.part(part),
    );
    await outlet.ready();
    return { ...answer, bytes };
  } catch (error) {
    if (error instanceof NoRoom) return undefined;
    throw error;
  } finally {
    spool?.close();
  }
}

/** Only ends a loop inside this file. */
class NoRoom extends Error {}

async function startEncoding({ bench, snapshot, job, signal }: Pass) {
  const md5 = createMd5();
  const chunks = hashed(chunksOf(snapshot, bench.buffer, signal), md5);
  const { compressor, buffers } = bench;
  const { compression } = job;
  const encoded = await encode(chunks, { sizeBytes: snapshot.facts.size, compression, compressor, buffers });
  return { md5, encoded };
}

/** What a pass came to. */
interface Encoded {
  readonly md5: string;
  readonly last: Bytes;
  readonly storedBytes: number;
}

/** Decides what the last part is worth. `head` is set when it is the only one. */
function finish(
  { snapshot, job, known }: Pass,
  { md5, last: bytes, storedBytes }: Encoded,
  head?: Omit<BodyHead, 'md5' | 'sizeHintBytes'>,
): WorkerAnswer {
  const { facts } = snapshot;
  const obstacle = unmoved(snapshot);
  if (obstacle !== undefined) return obstacle;
  // Two passes over one state cannot differ; if they do, the file system hides changes from us.
  if (known !== undefined && known !== md5) return { kind: 'moved' };
  const isUnchanged = job.baseline?.size === facts.size && job.baseline.md5 === md5;
  if (isUnchanged && head !== undefined) return { kind: 'unchanged', md5, facts };
  const whole = head && { ...head, md5, sizeHintBytes: storedBytes };
  return { kind: 'end', head: whole, bytes, proof: { md5, facts, storedBytes } };
}

function unmoved(snapshot: Snapshot): { readonly kind: 'writer' | 'moved' } | undefined {
  const moved = movedSince(snapshot);
  return moved && { kind: moved };
}

async function digest(bench: Bench, snapshot: Snapshot, signal: AbortSignal): Promise<string> {
  const md5 = createMd5();
  for await (const chunk of chunksOf(snapshot, bench.buffer, signal)) md5.update(chunk);
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

/** Hands every part but the last to `take`, and returns the last. */
export async function eachPart(parts: Parts, take: (part: Bytes) => void | Promise<void>): Promise<Bytes> {
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
