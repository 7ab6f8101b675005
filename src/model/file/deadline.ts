// The last seconds before the machine is taken away: when they end, how fast the link is, in which order files are
// sent, which still fit, and when the task must be gone. Pure; the launcher and sidecar/queue act on it.
import type { FileRole } from './file-state.ts';

/** Aim to finish this long before the instant that a source names: clocks differ, and the exit itself takes time. */
const NOTICE_MARGIN_MS = 2000;
/** The drain after the task gets at least this long, and at most its share of the window. */
const LEAST_DRAIN_MS = 3000;
const DRAIN_SHARE = 1 / 3;
/** At its end the task may close more than it has open now, and the link may be slower then. */
const DRAIN_SAFETY = 1.5;
/** Bytes beyond what the link carries in this time are not sent at once: files that share the link all finish late. */
const MOST_QUEUED_MS = 1000;
/** While one push reads or waits for the store's answer, the other can send. */
const LEAST_CONCURRENT = 2;
/** A push in progress is given up only if it needs this much more than the time left: its bytes would be wasted. */
const LATE_FACTOR = 1.25;
/** The share of the remaining time for a result that may delay a checkpoint. */
const RESULTS_SHARE = 0.5;
/** This many bytes of one push may be nearly acknowledged: the size of a part (read/encode.ts). */
export const PART_BYTES = 8 * 2 ** 20;

/**
 * When everything must be over, ms since the epoch. `atMs` is the instant that the source names. If it is undefined or
 * in the past, the grace counts from now on.
 */
export function deadlineOf(atMs: number | undefined, nowMs: number, graceMs: number): number {
  return atMs === undefined || atMs <= nowMs ? nowMs + graceMs : Math.max(nowMs, atMs - NOTICE_MARGIN_MS);
}

/** How long before the deadline the task must be gone. `drainMs`: the measured time to send its last files. */
export function drainReserveMs(windowMs: number, drainMs: number | undefined): number {
  const mostMs = Math.max(0, windowMs) * DRAIN_SHARE;
  if (drainMs === undefined) return mostMs;
  return Math.min(mostMs, Math.max(LEAST_DRAIN_MS, drainMs * DRAIN_SAFETY));
}

/** A file that is being sent, or waits to be sent. */
export interface Sending {
  readonly role: FileRole;
  /** Bytes still to send, as far as known. */
  readonly bytes: number;
}

/** The time that is left, and the measured rate in bytes per millisecond; undefined before the first measurement. */
export interface SendWindow {
  readonly leftMs: number;
  readonly bytesPerMs: number | undefined;
}

/** Checkpoints first, then the smallest. */
export function byUrgency(a: Sending, b: Sending): number {
  if (a.role !== b.role) return a.role === 'checkpoint' ? -1 : 1;
  return a.bytes - b.bytes;
}

/**
 * Whether this push may start beside those in progress. A checkpoint always may. A result may if all of them can
 * finish in time without keeping the link busy for long: a checkpoint needs the link nearly for itself. On an idle
 * link it always may: the measured rate may be wrong, and nothing else would use the time.
 */
export function mayStart(
  next: Sending,
  underWay: readonly Sending[],
  { leftMs, bytesPerMs }: SendWindow,
): boolean {
  if (leftMs <= 0) return false;
  if (bytesPerMs === undefined || next.role === 'checkpoint' || underWay.length === 0) return true;
  const fittingBytes = bytesPerMs * leftMs;
  // A push that cannot finish in time is given up for this one.
  const hopeful = underWay.filter(
    ({ role, bytes }) => role === 'checkpoint' || bytes <= fittingBytes * LATE_FACTOR,
  );
  const bytes = totalBytes(hopeful);
  if (bytes + next.bytes > fittingBytes) return false;
  return bytes < bytesPerMs * MOST_QUEUED_MS || hopeful.length < LEAST_CONCURRENT;
}

/**
 * Results in progress that cannot finish in time, and slow down those that can. Never all of them, unless a checkpoint
 * waits for the link: then results get half of the time. If the rate is unknown, only nearly finished ones stay.
 */
export function tooLate<T extends Sending>(
  underWay: readonly T[],
  { leftMs, bytesPerMs }: SendWindow,
): readonly T[] {
  const results = underWay.filter(({ role }) => role === 'result').toSorted(byUrgency);
  const isCheckpoint = results.length < underWay.length;
  if (bytesPerMs === undefined) return isCheckpoint ? results.filter(({ bytes }) => bytes > PART_BYTES) : [];
  const fittingBytes = bytesPerMs * Math.max(0, leftMs) * (isCheckpoint ? RESULTS_SHARE : LATE_FACTOR);
  let bytes = totalBytes(underWay) - totalBytes(results);
  return results.filter((sending, at) => {
    if ((at === 0 && !isCheckpoint) || bytes + sending.bytes <= fittingBytes) {
      bytes += sending.bytes;
      return false;
    }
    return true;
  });
}

function totalBytes(sendings: readonly Sending[]): number {
  return sendings.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** After this much busy time, a measurement counts half. */
const HALF_LIFE_MS = 15_000;
/** A shorter busy time proves nothing. */
const LEAST_BUSY_MS = 100;
/** Neither do fewer bytes: a few small files measure the store's latency, not the throughput of the link. */
const LEAST_BYTES = 2 ** 19;

/** The recent rate at which this run has sent to the store, over all concurrent pushes. */
export class SendingRate {
  #underWay = 0;
  #foldedAtMs = 0;
  #busyMs = 0;
  #bytes = 0;
  /** Over the whole run. */
  #heardBytes = 0;

  began(nowMs: number): void {
    this.#fold(nowMs);
    this.#underWay += 1;
  }

  sent(bytes: number, nowMs: number): void {
    this.#fold(nowMs);
    this.#bytes += bytes;
    this.#heardBytes += bytes;
  }

  ended(nowMs: number): void {
    this.#fold(nowMs);
    this.#underWay -= 1;
  }

  /** Bytes per millisecond; undefined while too little was measured. */
  bytesPerMs(nowMs: number): number | undefined {
    this.#fold(nowMs);
    return this.#heardBytes < LEAST_BYTES || this.#busyMs < LEAST_BUSY_MS
      ? undefined
      : this.#bytes / this.#busyMs;
  }

  /** The same, as if `moreBytes` were acknowledged now: bytes in flight may be nearly acknowledged. */
  bytesPerMsWith(moreBytes: number, nowMs: number): number | undefined {
    const bytesPerMs = this.bytesPerMs(nowMs);
    return bytesPerMs === undefined ? undefined : bytesPerMs + moreBytes / this.#busyMs;
  }

  #fold(nowMs: number): void {
    const passedMs = Math.max(0, nowMs - this.#foldedAtMs);
    this.#foldedAtMs = nowMs;
    if (this.#underWay === 0) return;
    const kept = 2 ** (-passedMs / HALF_LIFE_MS);
    this.#bytes *= kept;
    this.#busyMs = this.#busyMs * kept + passedMs;
  }
}
