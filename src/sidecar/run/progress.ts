// A progress line for what takes longer than a second, on a terminal. Each drawing leaves the cursor at the beginning
// of the line, so that the next message, even one of another process, is written over it; messages erase the rest of
// their line (model/format/message-line). So the two never mix.
import { progressLine, type FileProgress } from '../../model/format/progress-line.ts';

const QUIET_MS = 1000;
const EVERY_MS = 250;

/**
 * With wrapping off (DECAWM, xterm's "Control Sequences") a line stays one line on any terminal, and \r goes back to
 * its beginning.
 */
const drawn = (text: string): string => `\u001b[?7lcapture: ${text}\u001b[K\r\u001b[?7h`;
const ERASED = '\u001b[K';

export interface Progress {
  /** A file is on its way, whether or not a piece of work is shown. */
  file(): FileProgress;
  /** Begins a piece of work: so many files with `bytes` in all are to come; undefined if nobody knows. */
  begin(what: string, files: number, bytes: number | undefined): void;
  end(): void;
}

/** `draw` writes to the terminal; undefined if there is none. */
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
