// Readers that several options share: what a text means, or what was expected in its place. Pure; the caller adds which
// option it was and what stood there.
import path from 'node:path';
import { formatMs, parseDurationMs, parseSizeBytes } from '../../model/units.ts';

/** Why a text is no value of its option. */
export interface Unread {
  /** `not a duration` */
  readonly is: string;
  /** An example of what is one, without the option's name. */
  readonly example: string;
}

/** A path is taken from `cwd`, the current directory. */
export type Reader<T> = (text: string, cwd?: string) => { readonly value: T } | Unread;

/** From `leastMs` to what a timer of Node can count. */
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
    ? { is: 'not a size: it needs a unit, B, KiB, MiB, GiB, kB, MB or GB', example }
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

/** Then the hint is the most: whoever asks for too much wants that. */
export function isTooLarge(text: string, most: number): boolean {
  return /^\d+$/.test(text) && Number(text) > most;
}

export function choice<T extends string>(...words: readonly T[]): Reader<T> {
  return (text) => {
    const value = words.find((word) => word === text);
    return value === undefined
      ? { is: `not one of ${words.join(', ')}`, example: words[0] ?? '' }
      : { value };
  };
}

/** As it was given. An empty one is refused: it is probably a shell variable that is not set. */
export const filePath: Reader<string> = (text) =>
  text === '' || text.includes('\0') ? { is: 'not a path', example: '/tmp/x' } : { value: text };

export const absolutePath: Reader<string> = (text, cwd = '') => {
  const read = filePath(text);
  return 'value' in read ? { value: path.resolve(cwd, read.value) } : read;
};

/** For `sh -c`. */
export const shellCommand: Reader<string> = (text) =>
  text.trim() === '' || text.includes('\0') ? { is: 'not a command', example: "'make -j'" } : { value: text };
