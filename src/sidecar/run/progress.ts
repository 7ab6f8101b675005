// A progress line for what takes longer than a second, where somebody looks on at a terminal. Each drawing leaves the
// cursor at the beginning of the line, so that whoever speaks next, another process too, writes over it; messages
// erase the rest of their line (model/format/message-line). So neither is ever mixed with the other.
import { progressLine, type FileProgress } from '../../model/format/progress-line.ts';

const QUIET_MS = 1000;
const EVERY_MS = 250;

/**
 * Without wrapping (DECAWM, xterm's "Control Sequences") one line is one line on any terminal, and \r goes back to its
 * beginning.
 */
const drawn = (text: string): string => `\u001b[?7lcapture: ${text}\u001b[K\r\u001b[?7h`;
const ERASED = '\u001b[K';

export interface Progress {
  /** A file is on its way, whether or not a piece of work is shown. */
  file(): FileProgress;
  /** Begins a piece of work: `bytes` of so many files are to come; undefined when nobody knows. */
  begin(what: string, files: number, bytes: number | undefined): void;
  end(): void;
}

/** `draw` writes to the terminal; undefined where there is none. */
export function openProgress(draw: ((text: string) => void) | undefined): Progress {
  const onTheirWay = new Map<FileProgress, number>();
  let filesDone = 0;
  let bytesDone = 0;
  let timer: NodeJS.Timeout | undefined;
  let isDrawn = false;
  const moved = (): number => [...onTheirWay.values()].reduce((sum, bytes) => sum + bytes, bytesDone);
  const end = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (isDrawn) draw?.(ERASED);
    isDrawn = false;
  };
  return {
    file: () => {
      const file: FileProgress = {
        moved: (bytes) => onTheirWay.set(file, (onTheirWay.get(file) ?? 0) + bytes),
        done: (bytes) => {
          onTheirWay.delete(file);
          bytesDone += bytes;
          filesDone += 1;
        },
        failed: () => onTheirWay.delete(file),
      };
      return file;
    },
    begin: (what, files, bytes) => {
      end();
      if (draw === undefined) return;
      filesDone = 0;
      bytesDone = 0;
      const before = moved();
      const startedMs = performance.now();
      const show = (): void => {
        const bytesNow = moved();
        draw(
          drawn(
            progressLine({
              what,
              files,
              filesDone,
              bytes,
              bytesDone: bytesNow,
              bytesMoved: Math.max(0, bytesNow - before),
              elapsedMs: performance.now() - startedMs,
            }),
          ),
        );
        isDrawn = true;
        timer = setTimeout(show, EVERY_MS).unref();
      };
      timer = setTimeout(show, QUIET_MS).unref();
    },
    end,
  };
}
