// The job of a worker that reads the end of a file that is open and being appended to: a companion. What was
// written once is taken to stay, so no writer is looked for; what can be seen to have changed is never taken.
import fs from 'node:fs';
import { type Piece, TAIL_BYTES } from '../model/checkpoint/companions.ts';
import type { FileFacts } from '../model/file/file-state.ts';
import { newMd5 } from '../model/md5.ts';
import { factsOf, openBeneath } from '../native/files.ts';
import { encode, partSizeBytes } from './encode.ts';
import { digest, giveLast, giveParts, hashed, type Outlet, type Resources } from './read-file.ts';
import { type Obstacle, type RangeJob, SnapshotMoved, type WorkerAnswer } from './reading.ts';
import { chunksBetween, obstacleOf } from './snapshot.ts';

/** One range of an open file. */
interface Open {
  readonly resources: Resources;
  readonly job: RangeJob;
  readonly fd: number;
  readonly signal: AbortSignal;
}

/** Answers the job. Throws what is no state of the file, and the signal's reason. */
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
    // Also what is only looked at would keep the small files waiting.
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
  const given = await giveParts(encoded, { facts, spool: 'unused', first }, outlet);
  const sum = md5.digest();
  // Read last, and not to be had from a file that was cut back meanwhile.
  const tail = await tailOf(range);
  return giveLast(given, { md5: sum, facts, tail }, outlet);
}

/** Up to where the file still holds the known pieces, one after the other. */
async function heldUpTo(range: Open): Promise<number> {
  let at = 0;
  for (const piece of range.job.known) {
    if (!(await holds(range, piece))) break;
    at = piece.first + piece.size;
  }
  return at;
}

async function holds(range: Open, piece: Piece): Promise<boolean> {
  return (await digest(chunks(range, piece.first, piece.first + piece.size))) === piece.md5;
}

async function tailOf(range: Open): Promise<Piece> {
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

function endOf(pieces: readonly Piece[]): number {
  const last = pieces.at(-1);
  return last === undefined ? 0 : last.first + last.size;
}
