// One reading of one file, or of the new end of one, into one object. It knows nothing of results and checkpoints: the
// caller names the key. It never publishes anything that was not proven to be one consistent state of the file.
import fs from 'node:fs';
import type { Baseline } from '../model/file/baseline.ts';
import type { FilePiece } from '../model/checkpoint/companions.ts';
import { LEAST_LEVEL } from '../model/compression-level.ts';
import type { FileFacts, Fingerprint } from '../model/file/file-state.ts';
import { linkStaysInside } from '../model/file/link-target.ts';
import { mayCompress } from '../model/format/keys.ts';
import type { Segment, StoredFile } from '../model/format/records.ts';
import type { Compression } from '../model/format/settings.ts';
import type { LinkRate } from '../model/link-rate.ts';
import { md5Of } from '../model/md5.ts';
import { decodePath, type RelPath } from '../model/path.ts';
import { beneath, whereabouts, type WorkDir } from '../native/beneath.ts';
import { reached } from '../native/failpoint.ts';
import { fileFacts } from '../native/files.ts';
import type { MountsBeneath } from '../native/mounts.ts';
import {
  type HeldState,
  SnapshotMoved,
  type JobCompression,
  type RangeJob,
  type ReadJob,
} from '../read/reading.ts';
import type { Workers } from '../read/workers.ts';
import {
  ABSENT,
  type ObjectMeta,
  type Precondition,
  type PutOptions,
  type PutOutcome,
  type Store,
  StoreError,
} from '../store/contract/store.ts';
import { type Bandwidth, atLimitedRate } from './bandwidth.ts';
import { metered } from './metered.ts';

export interface Sender {
  readonly root: WorkDir;
  /** Tells a file that was removed from one whose file system was unmounted. */
  readonly mounts: Pick<MountsBeneath, 'haveChangedAbove'>;
  readonly workers: Workers;
  readonly store: Store;
  readonly compression: Compression;
  /** `--bandwidth` */
  readonly bandwidth: Bandwidth | undefined;
  /** As measured; undefined if nobody needs it. */
  readonly link?: LinkRate | undefined;
  readonly attempt: number;
  readonly newId: () => string;
  /** Called when the spool has no room for a file, so it is read while it is sent. */
  readonly onSpoolFull: (path: RelPath, sizeBytes: number) => void;
  /** Identifies the run of the task: the same for every sidecar that serves it. */
  readonly runToken: string;
  /** As used in keys. */
  readonly index: string;
  /** `--run` */
  readonly runId: string | undefined;
}

export interface SendJob {
  readonly path: RelPath;
  readonly keyOf: (compressed: boolean) => string;
  readonly baseline: Baseline | undefined;
  /** Any other state of the file is refused. */
  readonly expected?: Fingerprint;
  /** The state to send, whatever is at the path by now. */
  readonly held?: HeldState | undefined;
  readonly outlivesName?: boolean;
  readonly spoolFirst: boolean;
  readonly urgent?: ReadJob['urgent'];
  /** Of the put. A function is called once the content is known to be new, before the first byte is sent. */
  readonly precondition: Precondition | ((to: Target) => Promise<Precondition>);
  /** Called when the store has acknowledged this many more bytes. */
  readonly onSent?: PutOptions['onSent'];
  /** The id of a push of this state; default: a new one. Called before the first byte is sent. */
  readonly pushOf?: ((read: FileFacts) => string) | undefined;
  /** Called with the state that was read. True if it must not be stored under this key: then nothing is sent. */
  readonly isStaged?: (read: FileFacts) => boolean;
}

export interface Target {
  readonly key: string;
  /** Of the content, if it is known before sending. */
  readonly md5: string | undefined;
}

export type Sent =
  | {
      readonly kind: 'stored';
      readonly file: StoredFile;
      readonly fingerprint: FileFacts;
      /** Tag of the object, for the put that replaces it. */
      readonly tag: string;
    }
  | { readonly kind: 'unchanged'; readonly md5: string; readonly fingerprint: FileFacts }
  /** The precondition did not hold. */
  | { readonly kind: 'exists'; readonly key: string }
  | { readonly kind: 'replaced-meanwhile'; readonly key: string }
  /** {@link SendJob.isStaged} */
  | { readonly kind: 'staged' }
  | { readonly kind: 'has-writer' | 'torn' | 'gone' }
  | { readonly kind: 'refused'; readonly why: string };

/** Reads and sends one file. Throws the store's errors; every state of the file is an outcome. */
export async function sendFile(sender: Sender, job: SendJob, signal?: AbortSignal): Promise<Sent> {
  reached('push.before-read');
  const reading = await sender.workers.read(
    {
      path: job.path,
      expected: job.expected,
      held: job.held,
      outlivesName: job.outlivesName,
      compression: compressionOf(sender, job.path),
      baseline: job.baseline,
      spoolFirst: job.spoolFirst,
      urgent: job.urgent,
    },
    signal,
  );
  switch (reading.kind) {
    case 'unchanged':
      return { kind: 'unchanged', md5: reading.md5, fingerprint: reading.facts };
    case 'writer':
      return { kind: 'has-writer' };
    case 'moved':
      return { kind: 'torn' };
    case 'gone':
      return whyUnseen(sender, job.path) ?? { kind: 'gone' };
    case 'refused': {
      const link = readLink(sender, job.path);
      return link === undefined ? reading : sendLink(sender, job, link, signal);
    }
    case 'body':
      return sendBody(sender, job, reading, signal);
  }
}

/** Why a file that is not at its path was not removed by the task; undefined if it was. */
function whyUnseen({ root, mounts }: Sender, path: RelPath): Extract<Sent, { kind: 'refused' }> | undefined {
  if (whereabouts(root) === 'removed')
    return { kind: 'refused', why: 'the task removed its work directory before it was stored' };
  if (!mounts.haveChangedAbove(path)) return undefined;
  return { kind: 'refused', why: `${REMOUNTED} before it was stored` };
}

/** Why a file is out of sight. */
export const REMOUNTED = 'a file system was mounted or unmounted above it';

type Body = Extract<Awaited<ReturnType<Workers['read']>>, { kind: 'body' }>;

async function sendBody(sender: Sender, job: SendJob, body: Body, signal?: AbortSignal): Promise<Sent> {
  // If the reading fails, nobody may be waiting for `done` yet: the upload reports the failure.
  body.done.catch(() => undefined);
  if (job.isStaged?.(body.facts) === true) {
    await discard(body.parts);
    return { kind: 'staged' };
  }
  if (body.spool === 'full') sender.onSpoolFull(job.path, body.facts.size);
  const key = job.keyOf(body.compressed);
  const push = job.pushOf?.(body.facts) ?? sender.newId();
  let precondition: Precondition;
  try {
    precondition = await preconditionOf(job, { key, md5: body.md5 });
  } catch (error) {
    await discard(body.parts);
    throw error;
  }
  // Delays by the user's limit say nothing about the link.
  const isLimited = sender.bandwidth?.bytesPerS !== undefined;
  const link = isLimited || body.whole !== undefined ? undefined : sender.link;
  const meter = link && metered(link, body.parts);
  let put: Extract<PutOutcome, { kind: 'stored' }>;
  try {
    reached('push.before-put');
    const limited = await atLimitedRate(sender.bandwidth, body.whole ?? meter?.parts ?? body.parts, signal);
    const outcome = await sender.store.put(key, limited, {
      meta: metaOf(sender, push, body.facts, body.md5),
      precondition,
      md5: body.compressed ? undefined : body.md5,
      onSent: (bytes) => {
        meter?.sent(bytes);
        job.onSent?.(bytes);
      },
      release: body.parts.release,
      signal,
    });
    reached('push.after-put');
    if (outcome.kind !== 'stored') return { kind: outcome.kind, key };
    put = outcome;
  } catch (error) {
    if (error instanceof SnapshotMoved) return { kind: 'torn' };
    if (error instanceof StoreError && error.kind === 'impossible')
      return { kind: 'refused', why: error.message };
    throw error;
  } finally {
    meter?.close();
    await discard(body.parts);
  }
  const { md5, facts, storedBytes } = await body.done;
  const { tag, sizeBytes: storedSize = storedBytes } = put;
  const file = storedFile(
    sender,
    job.path,
    { kind: 'file', key, push, md5, compressed: body.compressed, storedSize },
    facts,
  );
  return { kind: 'stored', file, fingerprint: facts, tag };
}

async function preconditionOf({ precondition }: SendJob, to: Target): Promise<Precondition> {
  return typeof precondition === 'function' ? precondition(to) : precondition;
}

/** The target and state of a symbolic link; undefined for anything else (the reading finds out what it is). */
function readLink(sender: Sender, path: RelPath): { target: Buffer; facts: FileFacts } | undefined {
  try {
    return beneath(sender.root, path, (full) => {
      const stat = fs.lstatSync(full, { bigint: true });
      if (!stat.isSymbolicLink()) return undefined;
      return { target: fs.readlinkSync(full, { encoding: 'buffer' }), facts: fileFacts(stat) };
    });
  } catch {
    return undefined;
  }
}

async function sendLink(
  sender: Sender,
  job: SendJob,
  link: { target: Buffer; facts: FileFacts },
  signal?: AbortSignal,
): Promise<Sent> {
  if (!linkStaysInside(job.path, decodePath(link.target))) {
    return { kind: 'refused', why: 'it is a symbolic link that leads out of the work directory' };
  }
  const md5 = md5Of(link.target);
  if (job.baseline?.kind === 'link' && job.baseline.md5 === md5)
    return { kind: 'unchanged', md5, fingerprint: link.facts };
  const key = job.keyOf(false);
  const push = job.pushOf?.(link.facts) ?? sender.newId();
  const precondition = await preconditionOf(job, { key, md5 });
  const meta = { ...metaOf(sender, push, link.facts, md5), link: '1' };
  const outcome = await sender.store.put(key, link.target, { meta, precondition, md5, signal });
  if (outcome.kind !== 'stored') return { kind: outcome.kind, key };
  const size = link.target.length;
  const { sizeBytes: storedSize = size } = outcome;
  const object = { kind: 'link', key, push, md5, compressed: false, storedSize } as const;
  const file = { ...storedFile(sender, job.path, object, link.facts), size };
  return { kind: 'stored', file, fingerprint: link.facts, tag: outcome.tag };
}

interface SegmentJob extends Omit<RangeJob, 'compression'> {
  /** Called again while the returned key is taken; `first` is the segment's first byte. */
  readonly keyOf: (compressed: boolean) => string;
}

export type SegmentSent =
  /** The file holds the known pieces up to `first`. `segment` is the rest; undefined if there is none. */
  | {
      readonly kind: 'stored';
      readonly first: number;
      readonly segment: Segment | undefined;
      readonly tail: FilePiece | undefined;
      readonly facts: FileFacts;
    }
  /** Truncated, replaced or removed since the range was chosen. */
  | { readonly kind: 'moved' }
  | { readonly kind: 'refused'; readonly why: string };

/**
 * Reads the new end of one companion and sends it as a new object. It only ever creates, so it cannot harm an earlier
 * segment. Throws the store's errors; every state of the file is an outcome.
 */
export async function sendSegment(
  sender: Sender,
  { keyOf, ...range }: SegmentJob,
  signal?: AbortSignal,
): Promise<SegmentSent> {
  for (;;) {
    const reading = await sender.workers.range(
      { ...range, compression: compressionOf(sender, range.path) },
      signal,
    );
    if (reading.kind === 'refused') return reading;
    if (reading.kind !== 'body') return { kind: 'moved' };
    // If the reading fails, nobody may be waiting for `done` yet: the upload reports the failure.
    reading.done.catch(() => undefined);
    const { first = 0, compressed, facts } = reading;
    try {
      if (first === range.end) {
        const { tail } = await reading.done;
        return { kind: 'stored', first, segment: undefined, tail, facts };
      }
      const key = keyOf(compressed);
      const push = sender.newId();
      const size = range.end - first;
      const limited = await atLimitedRate(sender.bandwidth, reading.parts, signal);
      const outcome = await sender.store.put(key, limited, {
        meta: metaOf(sender, push, { ...facts, size }, reading.md5),
        precondition: ABSENT,
        release: reading.parts.release,
        signal,
      });
      if (outcome.kind !== 'stored') continue;
      const { md5, tail } = await reading.done;
      return { kind: 'stored', first, segment: { key, push, first, size, md5, compressed }, tail, facts };
    } catch (error) {
      if (error instanceof SnapshotMoved) return { kind: 'moved' };
      throw error;
    } finally {
      await discard(reading.parts);
    }
  }
}

/** With `zstd:auto`: level 1, and the link rate by which a large file may get another level. */
function compressionOf({ compression, bandwidth, link }: Sender, path: RelPath): JobCompression {
  if (compression.kind === 'none' || !mayCompress(path)) return { kind: 'none' };
  const { level } = compression;
  if (level !== 'auto') return { kind: 'zstd', level };
  return { kind: 'zstd', level: LEAST_LEVEL, linkBytesPerS: bandwidth?.bytesPerS ?? link?.bytesPerS };
}

function storedFile(
  sender: Sender,
  path: RelPath,
  object: Pick<StoredFile, 'kind' | 'key' | 'push' | 'md5' | 'compressed' | 'storedSize'>,
  facts: FileFacts,
): StoredFile {
  return {
    path,
    attempt: sender.attempt,
    size: facts.size,
    mtimeNs: facts.mtimeNs,
    mode: facts.mode,
    ...object,
  };
}

/** The metadata of an object: facts of its bytes before compression. */
function metaOf(
  { runToken, index, runId }: Pick<Sender, 'runToken' | 'index' | 'runId'>,
  push: string,
  facts: Pick<FileFacts, 'size' | 'mtimeNs' | 'mode'>,
  md5: string | undefined,
): ObjectMeta {
  return {
    push,
    run: runToken,
    index,
    ...(runId === undefined ? {} : { 'run-id': runId }),
    size: String(facts.size),
    mtime: facts.mtimeNs,
    mode: facts.mode.toString(8),
    capture: CAPTURE_VERSION,
    ...(md5 === undefined ? {} : { md5 }),
  };
}

/** Ends an iteration early, so that its worker is free again. */
async function discard(parts: AsyncIterable<Uint8Array>): Promise<void> {
  await parts[Symbol.asyncIterator]().return?.();
}
