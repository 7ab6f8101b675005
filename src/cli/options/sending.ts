// The options that say how files are read and sent.
import type { Compression, Settings } from '../../model/format/settings.ts';
import { count, filePath, isTooLarge, sizeBytes, type Reader } from './readers.ts';
import { CAPTURING, group } from './spec.ts';
import type { Values } from './values.ts';

/** Levels above need memory that a sidecar has not got (zstd(1), --ultra). */
const MOST_ZSTD_LEVEL = 19;

const compression: Reader<Compression> = (text) => {
  const [, kind, level = '1'] = /^(zstd|none)(?::(\d+))?$/.exec(text) ?? [];
  if (kind === 'none' && text === 'none') return { value: { kind: 'none' } };
  if (kind === 'zstd' && Number(level) >= 1 && Number(level) <= MOST_ZSTD_LEVEL) {
    return { value: { kind: 'zstd', level: Number(level) } };
  }
  const example =
    kind === 'zstd' && isTooLarge(level, MOST_ZSTD_LEVEL) ? `zstd:${MOST_ZSTD_LEVEL}` : 'zstd:1';
  return { is: `not a compression: zstd, zstd:<1 to ${MOST_ZSTD_LEVEL}> or none`, example };
};

export const SENDING = group('Sending:', {
  compression: {
    flags: '--compression <how>',
    kind: 'value',
    help: 'zstd, zstd:<1 to 19> or none',
    on: CAPTURING,
    read: compression,
    default: 'zstd:1',
  },
  lanes: {
    flags: '--lanes <n>',
    kind: 'value',
    help: 'threads that read, hash and compress, 1 to 16',
    on: CAPTURING,
    read: count(1, 16),
    default: '2',
  },
  spool: {
    flags: '--spool <dir>',
    kind: 'value',
    help: 'where capture copies a file that the task rewrites while it is sent',
    on: CAPTURING,
    read: filePath,
    otherwise: 'the directory for temporary files',
  },
  'spool-limit': {
    flags: '--spool-limit <size>',
    kind: 'value',
    help: 'the largest such copy, not compressed',
    on: CAPTURING,
    read: sizeBytes,
    default: '1GiB',
  },
});

export function sendingOf(
  values: Values,
): Pick<Settings, 'compression' | 'workers' | 'spoolDir' | 'spoolLimitBytes'> {
  return {
    compression: values.of(SENDING.compression),
    workers: values.of(SENDING.lanes),
    spoolDir: values.path(SENDING.spool),
    spoolLimitBytes: values.of(SENDING['spool-limit']),
  };
}
