// Readers that several options share. A reader returns the value of a text, or what it expected instead. Pure; the
// caller adds the option and the text.
import path from 'node:path';
import { formatMs, parseDurationMs, parseSizeBytes } from '../../model/units.ts';

/** Why a text is no valid value. */
export interface Unread {
  /** `not a duration` */
  readonly is: string;
  /** An example of a valid value, without the option's name. */
  readonly example: string;
}

export interface Reader<T> {
  /** Paths are relative to `cwd`, the current directory. */
  (text: string, cwd?: string): { readonly value: T } | Unread;
  /** All valid texts, if they can be listed. */
  readonly words?: readonly string[];
}

/** From `leastMs` to the longest timer of Node. */
export function durationMs(leastMs = 0): Reader<number> {
  return (text) => {
    const value = parseDurationMs(text);
    const example = /^\d+(\.\d+)?$/.test(text) ? `${text}s` : '30s';
    if (value === undefined) return { is: 'not a duration: it needs a unit, ms, s, m, h or d', example };
    if (value < leastMs) return { is: `too short: at least ${formatMs(leastMs)}`, example: '1s' };
    if (value > LONGEST_MS) return { is: 'too long: at most 24d', example: '24d' };
    return { value };
  };
}

/** setTimeout takes 32 bits of milliseconds (Node, "Timers"). */
const LONGEST_MS = 24 * 86_400_000;

export const sizeBytes: Reader<number> = (text) => {
  const value = parseSizeBytes(text);
  const example = /^\d+(\.\d+)?$/.test(text) ? `${text}MiB` : '512MiB';
  return value === undefined
    ? { is: 'not a size: it needs a unit, KiB or K, MiB or M, GiB or G, kB, MB, GB', example }
    : { value };
};

export function count(least: number, most: number): Reader<number> {
  return (text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    const range = most === Infinity ? `${least} or more` : `${least} to ${most}`;
    if (!(value >= least && value <= most))
      return { is: `not a whole number, ${range}`, example: String(isTooLarge(text, most) ? most : least) };
    return { value };
  };
}

/** Then the hint suggests the maximum, because the user wants as much as possible. */
export function isTooLarge(text: string, most: number): boolean {
  return /^\d+$/.test(text) && Number(text) > most;
}

export function choice<T extends string>(...words: readonly T[]): Reader<T> {
  const read: Reader<T> = (text) => {
    const value = words.find((word) => word === text);
    return value === undefined
      ? { is: `not one of ${words.join(', ')}`, example: words[0] ?? '' }
      : { value };
  };
  return Object.assign(read, { words });
}

/** Unchanged. An empty path is refused, because it is probably an unset shell variable. */
export const filePath: Reader<string> = (text) =>
  text === '' || text.includes('\0') ? { is: 'not a path', example: '/tmp/x' } : { value: text };

export const absolutePath: Reader<string> = (text, cwd = '') => {
  const read = filePath(text);
  return 'value' in read ? { value: path.resolve(cwd, read.value) } : read;
};

/** A command for `sh -c`. */
export const shellCommand: Reader<string> = (text) =>
  text.trim() === '' || text.includes('\0') ? { is: 'not a command', example: "'make -j'" } : { value: text };
