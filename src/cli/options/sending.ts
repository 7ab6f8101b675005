// The options for reading and uploading files.
import type { Compression } from '../../model/format/settings.ts';
import { parseSizeBytes } from '../../model/units.ts';
import { absolutePath, count, isTooLarge, sizeBytes, type Reader } from './readers.ts';
import { CAPTURING, group } from './spec.ts';

/** Higher levels need more memory than a sidecar has (zstd(1), --ultra). */
const MOST_ZSTD_LEVEL = 19;

const compression: Reader<Compression> = (text) => {
  const [, kind, level = '1'] = /^(zstd|none)(?::(\d+|auto))?$/.exec(text) ?? [];
  if (kind === 'none' && text === 'none') return { value: { kind: 'none' } };
  if (kind === 'zstd' && level === 'auto') return { value: { kind: 'zstd', level } };
  if (kind === 'zstd' && Number(level) >= 1 && Number(level) <= MOST_ZSTD_LEVEL) {
    return { value: { kind: 'zstd', level: Number(level) } };
  }
  const example =
    kind === 'zstd' && isTooLarge(level, MOST_ZSTD_LEVEL) ? `zstd:${MOST_ZSTD_LEVEL}` : 'zstd:1';
  return { is: `not a compression: zstd, zstd:<1 to ${MOST_ZSTD_LEVEL}>, zstd:auto or none`, example };
};

/** A lower rate would block everything: a single record has some kB. */
const LEAST_RATE_BYTES = 1000;

const rate: Reader<number> = (text) => {
  const [, size = ''] = /^(.*)\/s$/.exec(text) ?? [];
  const value = parseSizeBytes(size);
  if (value === undefined) return { is: 'not a rate: a size in a second', example: '20MB/s' };
  if (value < LEAST_RATE_BYTES) return { is: 'too little: at least 1kB/s', example: '1MB/s' };
  return { value };
};

const lanes: Reader<number | 'auto'> = (text) => {
  if (text === 'auto') return { value: 'auto' };
  const read = count(1, 16)(text);
  return 'value' in read ? read : { ...read, is: `${read.is}, or auto` };
};

export const SENDING = group('Sending:', {
  compression: {
    flags: '--compression <how>',
    help: 'zstd, zstd:<1 to 19> or none; zstd:auto: more for large files while the link is slow',
    on: CAPTURING,
    read: compression,
    default: 'zstd:1',
  },
  bandwidthBytes: {
    flags: '--bandwidth <rate>',
    help: 'send at most so much in a second, such as 20MB/s; a notice and SIGTERM lift it',
    on: CAPTURING,
    read: rate,
    otherwise: 'no limit',
  },
  workers: {
    flags: '--lanes <n>',
    help: 'threads that read, hash and compress, 1 to 16, or auto: 2, and up to 4 while cores are idle',
    on: CAPTURING,
    read: lanes,
    default: 'auto',
  },
  spoolDir: {
    flags: '--spool <dir>',
    help: 'where capture copies a file that the task rewrites while it is sent',
    on: CAPTURING,
    read: absolutePath,
    otherwise: 'the directory for temporary files',
  },
  spoolLimitBytes: {
    flags: '--spool-limit <size>',
    help: 'the largest such copy, not compressed',
    on: CAPTURING,
    read: sizeBytes,
    default: '1GiB',
  },
});
