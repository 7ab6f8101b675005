// The last seconds before the machine is taken away: when they end, how fast the link is, in which order files go, which
// of them still fit, and when the task must be gone. Pure; the launcher and sidecar/queue carry it out.
import type { FileRole } from './file-state.ts';

/** Kept of an instant that a source names: clocks differ, and the exit itself takes time. */
export const NOTICE_MARGIN_MS = 2000;
/** The drain has at least this long after the task, and at most its share of the window. */
const LEAST_DRAIN_MS = 3000;
const DRAIN_SHARE = 1 / 3;
/** The task may close more at its end than it does now, and the link may be slower then. */
const DRAIN_SAFETY = 1.5;
/** More than the link carries in this time is not under way at once: what shares the link ends late together. */
const KEPT_BUSY_MS = 1000;
/** One may be read, or wait for the store's answer, while the other sends. */
const LEAST_UNDER_WAY = 2;
/** A push under way is given up only when it is clearly too late: its bytes would be sent in vain. */
const LATE = 1.25;
/** Of the time that is left, for a result whose end a checkpoint may have to wait for. */
const BESIDE_CHECKPOINT = 0.5;
/** Of one push so much may be all but acknowledged: the size of a part (read/parts.ts). */
export const PART_BYTES = 8 * 2 ** 20;

/**
 * When everything must be over, ms since the epoch. `atMs` is the instant that the source names; one that lies
 * in the past, like none, leaves the grace from now on.
 */
export function deadlineOf(atMs: number | undefined, nowMs: number, graceMs: number): number {
  return atMs === undefined || atMs <= nowMs ? nowMs + graceMs : Math.max(nowMs, atMs - NOTICE_MARGIN_MS);
}

/** How long before the deadline the task must be gone; `drainMs`: what sending its last files is measured to take. */
export function drainReserveMs(windowMs: number, drainMs: number | undefined): number {
  const mostMs = Math.max(0, windowMs) * DRAIN_SHARE;
  if (drainMs === undefined) return mostMs;
  return Math.min(mostMs, Math.max(LEAST_DRAIN_MS, drainMs * DRAIN_SAFETY));
}

/** A file on its way to the store, or waiting to go. */
export interface Sending {
  readonly role: FileRole;
  /** Bytes that are still to be sent, as far as that can be told. */
  readonly bytes: number;
}

/** The time that is left, and what was measured to be sent in a millisecond; undefined: nothing yet. */
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
 * Is this file begun beside what is under way? A checkpoint always is. A result is when all of them can end in
 * time, and they do not keep the link busy for long anyway: a checkpoint has it nearly for itself. On an idle link
 * it always is: the measure may be wrong, and nothing else would use the time.
 */
export function isBegun(
  next: Sending,
  underWay: readonly Sending[],
  { leftMs, bytesPerMs }: Window,
): boolean {
  if (leftMs <= 0) return false;
  if (bytesPerMs === undefined || next.role === 'checkpoint' || underWay.length === 0) return true;
  const fittingBytes = bytesPerMs * leftMs;
  // What cannot end in time in any case is given up for this one.
  const hopeful = underWay.filter(({ role, bytes }) => role === 'checkpoint' || bytes <= fittingBytes * LATE);
  const bytes = totalBytes(hopeful);
  if (bytes + next.bytes > fittingBytes) return false;
  return bytes < bytesPerMs * KEPT_BUSY_MS || hopeful.length < LEAST_UNDER_WAY;
}

/**
 * Results under way that cannot end in time, and take the link from those that can. Never all of them, unless they
 * stand in a checkpoint's way: beside one a result has half of the time, and of a link of which nothing is known
 * none but what is nearly sent.
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

/** After so much busy time a measure counts half. */
const HALF_LIFE_MS = 15_000;
/** Less busy time than this says nothing. */
const LEAST_BUSY_MS = 100;
/** Nor do fewer bytes: a few small files measure how soon the store answers, not what the link carries. */
const LEAST_BYTES = 2 ** 19;

export class LinkRate {
  #underWay = 0;
  #foldedAtMs = 0;
  #busyMs = 0;
  #bytes = 0;
  /** Of all time. */
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

  /** The same if `moreBytes` were acknowledged now: what is on its way may be all but there. */
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
