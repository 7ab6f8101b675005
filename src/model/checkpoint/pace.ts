// When a set of checkpoint files has waited too long, and which rotating directories are still being written. Pure.
// model/checkpoint/rounds defines a round, model/checkpoint/cut a cut.
import { type ClosedHow, isInOrder } from '../file/file-state.ts';
import { growingSet, type GrowingSet } from '../growing-set.ts';

/** The newest committed set is never older than this, or than three times the time to send one; ms. */
export const BOUND_MS = 10_000;
/** A cut of an instant is tried this long before it is due: a member may be open, or change before it is read. */
export const EARLY_MS = 3000;
/** Pushes in progress get this much time beyond the bound. */
export const LATE_MS = 2000;

/** `sendMs`: the measured time to send a set. */
export function boundOf(sendMs: number): number {
  return Math.max(BOUND_MS, 3 * sendMs);
}

/**
 * Which of the directories that rotate and are filled file by file are still being written. A directory is whole once
 * the next one begins, the program says so, or it was renamed into place. A pause proves nothing.
 */
export interface OpenUnits {
  readonly begun: GrowingSet<string>;
  /** Directories that may still get files. */
  readonly open: ReadonlySet<string>;
  /** The newest close has shown that all other directories are whole, and none has changed since. */
  readonly sealed: boolean;
}

/** `begun`: the restored directories. */
export function newUnits(begun: Iterable<string>): OpenUnits {
  return { begun: growingSet(begun), open: new Set(), sealed: false };
}

/** A file of this directory was closed. */
export function closedInUnit({ begun, open, sealed }: OpenUnits, unit: string, how: ClosedHow): OpenUnits {
  const isNew = !begun.has(unit);
  const isInPlace = how === 'dir-rename';
  if (isNew && (isInOrder(how) || isInPlace))
    return {
      begun: begun.with(unit),
      open: new Set(isInPlace ? [] : [unit]),
      sealed: begun.size > 0 || isInPlace,
    };
  if (isInPlace) return { begun, open: without(open, unit), sealed: open.size === 0 || sealed };
  return {
    begun: isNew ? begun.with(unit) : begun,
    open: new Set(open).add(unit),
    sealed: sealed && (isNew || open.has(unit)),
  };
}

/** The program says that what it has written is whole. */
export function unitsSaid(units: OpenUnits): OpenUnits {
  return { ...units, open: new Set(), sealed: true };
}

/** The program has closed the last file of this directory, by name. */
export function unitEnded({ begun, open }: OpenUnits, unit: string): OpenUnits {
  return { begun, open: without(open, unit), sealed: true };
}

/** After an inotify queue overflow any directory may have changed. */
export function unitsLost(units: OpenUnits): OpenUnits {
  return { ...units, open: new Set(units.begun), sealed: false };
}

function without(all: ReadonlySet<string>, one: string): ReadonlySet<string> {
  return new Set([...all].filter((other) => other !== one));
}
