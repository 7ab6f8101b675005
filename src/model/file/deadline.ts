// The last seconds before the machine is taken away: when they end, how fast the link is, in which order files are
// sent, which of them still fit, and when the task must be gone. Pure; the launcher and sidecar/queue act on it.
import type { FileRole } from './file-state.ts';

/**
 * We aim to be done this long before the instant that a source names: clocks differ, and the exit itself takes time.
 */
const NOTICE_MARGIN_MS = 2000;
/** The drain has at least this long after the task, and at most its share of the window. */
const LEAST_DRAIN_MS = 3000;
const DRAIN_SHARE = 1 / 3;
/** At its end the task may close more than it has open now, and the link may be slower then. */
const DRAIN_SAFETY = 1.5;
/** What the link cannot carry in this time is not sent at once: what shares the link ends late together. */
const KEPT_BUSY_MS = 1000;
/** While one is read, or waits for the store's answer, the other can be sent. */
const LEAST_UNDER_WAY = 2;
/** A push under way is given up only if it is clearly too late: its bytes would be sent in vain. */
const LATE = 1.25;
/** Share of the time that is left, for a result that a checkpoint may have to wait for. */
const BESIDE_CHECKPOINT = 0.5;
/** Of one push so many bytes may be nearly acknowledged: the size of a part (read/encode.ts). */
export const PART_BYTES = 8 * 2 ** 20;

/**
 * When everything must be over, ms since the epoch. `atMs` is the instant that the source names. If there is none, or
 * it lies in the past, the grace counts from now on.
 */
export function deadlineOf(atMs: number | undefined, nowMs: number, graceMs: number): number {
  return atMs === undefined || atMs <= nowMs ? nowMs + graceMs : Math.max(nowMs, atMs - NOTICE_MARGIN_MS);
}

/**
 * How long before the deadline the task must be gone. `drainMs`: how long sending its last files takes, as measured.
 */
export function drainReserveMs(windowMs: number, drainMs: number | undefined): number {
  const mostMs = Math.max(0, windowMs) * DRAIN_SHARE;
  if (drainMs === undefined) return mostMs;
  return Math.min(mostMs, Math.max(LEAST_DRAIN_MS, drainMs * DRAIN_SAFETY));
}

/** A file on its way to the store, or waiting to go. */
export interface Sending {
  readonly role: FileRole;
  /** Bytes that are still to be sent, as far as anybody can tell. */
  readonly bytes: number;
}

/**
 * The time that is left, and how many bytes are sent in a millisecond, as measured; undefined: nothing was measured
 * yet.
 */
export interface Window {
  readonly leftMs: number;
  readonly bytesPerMs: number | undefined;
}

/** Checkpoints first, then the smallest. */
export function byUrgency(a: Sending, b: Sending): number {
  if (a.role !== b.role) return a.role === 'checkpoint' ? -1 : 1;
  return a.bytes - b.bytes;
}

/**
 * Is this file begun beside what is under way? A checkpoint always is. A result is begun if all of them can end in
 * time, and will not keep the link busy for long: a checkpoint needs the link nearly for itself. On an idle link it
 * is always begun: the measure may be wrong, and nothing else would use the time.
 */
export function isBegun(
  next: Sending,
  underWay: readonly Sending[],
  { leftMs, bytesPerMs }: Window,
): boolean {
  if (leftMs <= 0) return false;
  if (bytesPerMs === undefined || next.role === 'checkpoint' || underWay.length === 0) return true;
  const fittingBytes = bytesPerMs * leftMs;
  // What cannot end in time anyway is given up for this one.
  const hopeful = underWay.filter(({ role, bytes }) => role === 'checkpoint' || bytes <= fittingBytes * LATE);
  const bytes = totalBytes(hopeful);
  if (bytes + next.bytes > fittingBytes) return false;
  return bytes < bytesPerMs * KEPT_BUSY_MS || hopeful.length < LEAST_UNDER_WAY;
}

/**
 * Results under way that cannot end in time, and take the link from those that can. Never all of them, unless a
 * checkpoint is waiting for the link: beside one, results get half of the time; and if nothing is known of the link,
 * only those stay that are nearly sent.
 */
export function tooLate<T extends Sending>(
  underWay: readonly T[],
  { leftMs, bytesPerMs }: Window,
): readonly T[] {
  const results = underWay.filter(({ role }) => role === 'result').toSorted(byUrgency);
  const isCheckpoint = results.length < underWay.length;
  if (bytesPerMs === undefined) return isCheckpoint ? results.filter(({ bytes }) => bytes > PART_BYTES) : [];
  const fittingBytes = bytesPerMs * Math.max(0, leftMs) * (isCheckpoint ? BESIDE_CHECKPOINT : LATE);
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

/** After this much busy time a measure counts half. */
const HALF_LIFE_MS = 15_000;
/** Less busy time than this proves nothing. */
const LEAST_BUSY_MS = 100;
/** Nor do fewer bytes: a few small files measure how fast the store answers, not what the link carries. */
const LEAST_BYTES = 2 ** 19;

/** How fast this run has sent to the store lately, over all that it sends at the same time. */
export class SendingRate {
  #underWay = 0;
  #foldedAtMs = 0;
  #busyMs = 0;
  #bytes = 0;
  /** In all the time. */
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

  /** Bytes in a millisecond; undefined while too little is known. */
  bytesPerMs(nowMs: number): number | undefined {
    this.#fold(nowMs);
    return this.#heardBytes < LEAST_BYTES || this.#busyMs < LEAST_BUSY_MS
      ? undefined
      : this.#bytes / this.#busyMs;
  }

  /** The same, as if `moreBytes` were acknowledged now: what is on its way may be nearly there. */
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
