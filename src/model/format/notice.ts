// A notice: somebody says that this machine or container will be taken away. Pure; src/notices listens to the sources,
// the launcher decides what to do.
import { formatMs, parseDurationMs } from '../units.ts';

export interface Notice {
  /** `ec2`, `gce`, `azure`, `file`, `after`, or a signal's name. */
  readonly source: string;
  /** `advice`: nothing is certain yet, only a flush is due (EC2 rebalance recommendation). */
  readonly kind: 'stop' | 'advice';
  /** When the machine or container is taken away, ms since the epoch; undefined: the source does not say. */
  readonly atMs: number | undefined;
  /** For the user: `EC2 terminates this instance at 08:22:00Z`. */
  readonly what: string;
}

/** True if both are the same notice: same source, kind and instant. */
export function sameNotice(a: Notice, b: Notice): boolean {
  return a.source === b.source && a.kind === b.kind && a.atMs === b.atMs;
}

/** One `--notice`. `after` fires this long after the start and names no instant: the deadline comes from `--grace`. */
export type NoticeChoice =
  | { readonly kind: 'auto' | 'none' | 'ec2' | 'gce' | 'azure' }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'after'; readonly ms: number };

/** setTimeout takes 32 bits of milliseconds (Node, "Timers"). */
const LONGEST_MS = 24 * 86_400_000;

/** The value of one `--notice`, or what was expected instead (in the form of src/cli/options/readers.ts). */
export function parseNotice(
  text: string,
): { readonly value: NoticeChoice } | { readonly is: string; readonly example: string } {
  switch (text) {
    case 'auto':
    case 'none':
    case 'ec2':
    case 'gce':
    case 'azure':
      return { value: { kind: text } };
    default:
  }
  const [, kind, rest = ''] = /^(file|after):(.*)$/s.exec(text) ?? [];
  if (kind === 'file') {
    return rest === '' || rest.includes('\0')
      ? { is: 'not a notice: file: needs a path', example: 'file:/tmp/stop' }
      : { value: { kind, path: rest } };
  }
  if (kind === 'after') {
    const ms = parseDurationMs(rest);
    if (ms === undefined)
      return { is: 'not a notice: after: needs a duration with its unit', example: 'after:30s' };
    return ms > LONGEST_MS
      ? { is: `too long: at most ${formatMs(LONGEST_MS)}`, example: 'after:24d' }
      : { value: { kind, ms } };
  }
  return {
    is: 'not a notice: auto, none, ec2, gce, azure, file:<path> or after:<duration>',
    example: 'auto',
  };
}
