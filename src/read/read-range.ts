// A worker's job to read the end of a companion: an open file that is being appended to. Written bytes are assumed to
// stay, so it does not look for writers; but bytes that visibly changed are never sent.
import fs from 'node:fs';
import { type FilePiece, TAIL_BYTES } from '../model/checkpoint/companions.ts';
import type { FileFacts } from '../model/file/file-state.ts';
import { newMd5 } from '../model/md5.ts';
import { factsOf, openBeneath } from '../native/files.ts';
import { partSizeBytes } from '../model/file/part-size.ts';
import { encode } from './encode.ts';
import { digest, releaseLast, releaseParts, hashed, type Outlet, type Resources } from './read-file.ts';
import { type Obstacle, type RangeJob, SnapshotMoved, type WorkerAnswer } from './reading.ts';
import { chunksBetween, obstacleOf } from './snapshot.ts';

/** One range of an open file. */
interface Open {
  readonly resources: Resources;
  readonly job: RangeJob;
  readonly fd: number;
  readonly signal: AbortSignal;
}

/** Answers the job. Throws errors that are not a state of the file, and the signal's reason. */
export async function readRange(
  resources: Resources,
  { job, smallOnly }: { readonly job: RangeJob; readonly smallOnly: boolean },
  outlet: Outlet,
  signal: AbortSignal,
): Promise<WorkerAnswer> {
  const opened = open(resources, job);
  if (typeof opened !== 'number') return opened;
  const range: Open = { resources, job, fd: opened, signal };
  try {
    const facts = factsOf(opened);
    if (facts.dev !== job.file.dev || facts.ino !== job.file.ino) return { kind: 'moved' };
    const goesOn = job.tail !== undefined && (await holds(range, job.tail));
    const known = endOf(job.known);
    // Bytes that are only compared would also keep small files waiting.
    const work = goesOn ? job.end - known : job.end;
    if (smallOnly && work > partSizeBytes(work)) return { kind: 'large' };
    return await send(range, goesOn ? known : await heldUpTo(range), facts, outlet);
  } catch (error) {
    if (error instanceof SnapshotMoved) return { kind: 'moved' };
    throw error;
  } finally {
    fs.closeSync(opened);
  }
}

function open({ root }: Resources, { path }: RangeJob): number | Obstacle {
  try {
    return openBeneath(root, path);
  } catch (error) {
    return obstacleOf(error, path);
  }
}

async function send(range: Open, first: number, facts: FileFacts, outlet: Outlet): Promise<WorkerAnswer> {
  const { resources, job } = range;
  const { buffers, compressor } = resources;
  const md5 = newMd5();
  const hashing = hashed(chunks(range, first, job.end), md5);
  const sizeBytes = job.end - first;
  const encoded = await encode(hashing, { sizeBytes, compression: job.compression, compressor, buffers });
  const given = await releaseParts(encoded, { facts, spool: 'unused', first }, outlet);
  const sum = md5.digest();
  // Read last; this fails if the file was truncated in between.
  const tail = await tailOf(range);
  return releaseLast(given, { md5: sum, facts, tail }, outlet);
}

/** The end of the known pieces, one after the other, that the file still holds. */
async function heldUpTo(range: Open): Promise<number> {
  let at = 0;
  for (const piece of range.job.known) {
    if (!(await holds(range, piece))) break;
    at = piece.first + piece.size;
  }
  return at;
}

async function holds(range: Open, piece: FilePiece): Promise<boolean> {
  return (await digest(chunks(range, piece.first, piece.first + piece.size))) === piece.md5;
}

async function tailOf(range: Open): Promise<FilePiece> {
  const { end } = range.job;
  const first = Math.max(0, end - TAIL_BYTES);
  return { first, size: end - first, md5: await digest(chunks(range, first, end)) };
}

function chunks(
  { resources, job, fd, signal }: Open,
  first: number,
  end: number,
): AsyncGenerator<Uint8Array, undefined> {
  return chunksBetween({ fd, path: job.path }, { first, end }, resources.buffer, signal);
}

function endOf(pieces: readonly FilePiece[]): number {
  const last = pieces.at(-1);
  return last === undefined ? 0 : last.first + last.size;
}
