// Reads the value of one option: what it means, or what was expected instead. Pure; the caller adds which
// option it was and what stood there.
import type { Compression, LogSettings, ReclaimMode, Settings } from '../model/format/settings.ts';
import { formatMs, parseDurationMs, parseSizeBytes } from '../model/units.ts';
import { isTaskName } from './task-name.ts';

/** Why a text is no value of its option. */
export interface Unread {
  /** `not a duration` */
  readonly is: string;
  /** An example of what is one, without the option's name. */
  readonly example: string;
}

export type Reader<T> = (text: string) => { readonly value: T } | Unread;

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

/** Who asks for more than there is wants the most. */
function isTooLarge(text: string, most: number): boolean {
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

export const requeueEngine: Reader<'slurm'> = choice('slurm');
export const reclaimMode: Reader<ReclaimMode> = choice('auto', 'now', 'never');
export const onLocal: Reader<Settings['onLocal']> = choice('stored', 'newest');
export const logLevel: Reader<LogSettings['level']> = choice('info', 'debug', 'warn', 'error', 'silent');
export const logFormat: Reader<LogSettings['format']> = choice('text', 'json');

/** Levels above need memory that a sidecar has not got (zstd(1), --ultra). */
const MOST_ZSTD_LEVEL = 19;

export const compression: Reader<Compression> = (text) => {
  const [, kind, level = '1'] = /^(zstd|none)(?::(\d+))?$/.exec(text) ?? [];
  if (kind === 'none' && text === 'none') return { value: { kind: 'none' } };
  if (kind === 'zstd' && Number(level) >= 1 && Number(level) <= MOST_ZSTD_LEVEL) {
    return { value: { kind: 'zstd', level: Number(level) } };
  }
  const example =
    kind === 'zstd' && isTooLarge(level, MOST_ZSTD_LEVEL) ? `zstd:${MOST_ZSTD_LEVEL}` : 'zstd:1';
  return { is: `not a compression: zstd, zstd:<1 to ${MOST_ZSTD_LEVEL}> or none`, example };
};

export const taskName: Reader<string> = (text) =>
  isTaskName(text)
    ? { value: text }
    : { is: 'not a task name: 1 to 64 letters, digits, dots, _ and -', example: 'lmp' };

/** Scheduler ids carry brackets and dots; it only stands in records, never in keys. */
export const runId: Reader<string> = (text) =>
  /^[\x21-\x7e]{1,128}$/.test(text)
    ? { value: text }
    : { is: 'not a run id: 1 to 128 characters without spaces', example: '"$SLURM_ARRAY_JOB_ID"' };

/** A path; only an empty one is refused: it is a variable that is not set. */
export const filePath: Reader<string> = (text) =>
  text === '' || text.includes('\0') ? { is: 'not a path', example: '/tmp/x' } : { value: text };

export const shellCommand: Reader<string> = (text) =>
  text.trim() === '' || text.includes('\0')
    ? { is: 'not a command', example: "'./check state.chk'" }
    : { value: text };

export const verifyAt: Reader<'restore' | 'commit' | 'both'> = choice('restore', 'commit', 'both');
