// The progress of a restore, a drain or a gathering, in one line. Pure: the caller has the clock.
import { formatBytes, formatMs, plural } from '../units.ts';

/** One file in transfer. Bytes are those of the local file; if it is sent compressed, fewer may be reported. */
export interface FileProgress {
  moved(bytes: number): void;
  /** All of it has arrived: this many bytes. */
  done(bytes: number): void;
  /** Given up, or to be retried: its bytes do not count. Does nothing after `done`. */
  failed(): void;
}

export interface TransferProgress {
  /** `restoring`, `storing` */
  readonly what: string;
  readonly files: number;
  readonly filesDone: number;
  /** Undefined if unknown. */
  readonly bytes: number | undefined;
  readonly bytesDone: number;
  /** How many of these since the transfer began. */
  readonly bytesMoved: number;
  readonly elapsedMs: number;
}

/** `storing: 3 of 12 files, 1.2 GiB of 4.0 GiB, 110.0 MiB/s, 25.5 s left`; leaves out what is unknown. */
export function progressLine(far: TransferProgress): string {
  const { what, files, filesDone, bytes, bytesDone, bytesMoved, elapsedMs } = far;
  const perMs = bytesMoved / Math.max(1, elapsedMs);
  const knowsAll = bytes !== undefined && bytes > 0 && bytes >= bytesDone;
  return [
    `${what}: ${Math.min(filesDone, files)} of ${plural(files, 'file')}`,
    knowsAll ? `${formatBytes(bytesDone)} of ${formatBytes(bytes)}` : formatBytes(bytesDone),
    `${formatBytes(Math.round(perMs * 1000))}/s`,
    ...(knowsAll && perMs > 0 ? [`${formatMs((bytes - bytesDone) / perMs)} left`] : []),
  ].join(', ');
}

/**
 * The control sequences for a line that leaves the cursor at its beginning: the next message, even of another process,
 * overwrites it and erases the rest (model/format/message-line). With wrapping off (DECAWM, xterm's "Control
 * Sequences") it stays one line on any terminal.
 */
export function drawnLine(text: string): string {
  return `\u001b[?7lcapture: ${text}\u001b[K\r\u001b[?7h`;
}

export const ERASED_LINE = '\u001b[K';
