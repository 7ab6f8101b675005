// A progress line for what takes longer than a second, on a terminal only: never in a log file.
import fs from 'node:fs';
import tty from 'node:tty';
import { formatBytes, formatMs, plural } from '../core/units.ts';

const QUIET_MS = 1000;
const EVERY_MS = 250;
const STDERR = 2;

export interface Progress {
  /** Begins a piece of work. `bytes` is what is known of its size: sent or stored, so an estimate. */
  begin(what: string, files: number, bytes: number): void;
  add(bytes: number): void;
  end(): void;
}

export function openProgress(now: () => number, terminal = tty.isatty(STDERR)): Progress {
  let label = '';
  let total = 0;
  let done = 0;
  let startedMs = 0;
  let drawnMs = 0;
  return {
    begin(what, files, bytes) {
      label = `${what} ${plural(files, 'file')}`;
      total = bytes;
      done = 0;
      startedMs = now();
      drawnMs = startedMs + QUIET_MS - EVERY_MS;
    },
    add(bytes) {
      done += bytes;
      const nowMs = now();
      if (!terminal || nowMs - drawnMs < EVERY_MS) return;
      drawnMs = nowMs;
      const rate = (done / Math.max(1, nowMs - startedMs)) * 1000;
      const left = total > done ? `, ${formatMs(((total - done) / rate) * 1000)} left` : '';
      write(
        `\r\u001b[Kcapture: ${label}: ${formatBytes(done)} of ${formatBytes(total)}, ${formatBytes(rate)}/s${left}`,
      );
    },
    end() {
      if (terminal && drawnMs >= startedMs + QUIET_MS) write('\r\u001b[K');
    },
  };
}

function write(text: string): void {
  try {
    fs.writeSync(STDERR, text);
  } catch {
    // A terminal that is gone or full loses a progress line, nothing else.
  }
}
