// How the page formats numbers and times. Pure.
import { formatBytes, formatMs } from '../../../model/units.ts';

export function durationText(seconds: number): string {
  if (seconds < 1) return `${Number(seconds.toPrecision(1))} s`;
  if (seconds < 2 * 86_400) return formatMs(seconds * 1000).replace(/(?<=\D) 0 (s|min)$/, '');
  const hours = Math.round(seconds / 3600);
  return hours < 10 * 24
    ? `${Math.floor(hours / 24)} d ${hours % 24} h`
    : `${countText(Math.round(hours / 24))} d`;
}

/** `2026-11-22 10:00:03Z`: cut to the second, as `capture status` does. */
export function timeText(seconds: number): string {
  // A sum of seconds may lie just below a whole millisecond.
  return new Date(Math.round(seconds * 1000)).toISOString().replace('T', ' ').replace(/\.\d+/, '');
}

/** A fraction with three digits, so that the labels of an axis differ: `0.02`, `1.5`. A large number is whole: `9,876`. */
export function numberText(value: number): string {
  return value < 100
    ? value.toLocaleString('en-US', { maximumSignificantDigits: 3 })
    : countText(Math.round(value));
}

export function countText(value: number): string {
  return value.toLocaleString('en-US');
}

/** Empty if unknown. */
export function bytesText(bytes: number | undefined): string {
  return bytes === undefined ? '' : formatBytes(Math.round(bytes));
}

/** `83 %`; empty if the whole is 0. */
export function shareText(part: number, whole: number): string {
  return whole === 0 ? '' : `${Math.round((100 * part) / whole)} %`;
}
