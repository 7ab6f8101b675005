// A progress line on a terminal for work that takes longer than a second. It never mixes with messages (drawnLine).
import { drawnLine, ERASED_LINE, progressLine, type FileProgress } from '../../model/format/progress-line.ts';

const QUIET_MS = 1000;
const EVERY_MS = 250;

export class Progress {
  readonly #draw: ((text: string) => void) | undefined;
  /** Bytes that were moved so far of each unfinished file. */
  readonly #onTheirWay = new Map<FileProgress, number>();
  #filesDone = 0;
  #bytesDone = 0;
  #timer: NodeJS.Timeout | undefined;
  #isDrawn = false;

  /** `draw` writes to the terminal; undefined if there is none. */
  constructor(draw: ((text: string) => void) | undefined) {
    this.#draw = draw;
  }

  /** A file is being moved, whether or not a piece of work is shown. */
  file(): FileProgress {
    const file: FileProgress = {
      moved: (bytes) => this.#onTheirWay.set(file, (this.#onTheirWay.get(file) ?? 0) + bytes),
      done: (bytes) => {
        this.#onTheirWay.delete(file);
        this.#bytesDone += bytes;
        this.#filesDone += 1;
      },
      failed: () => this.#onTheirWay.delete(file),
    };
    return file;
  }

  /** Begins a piece of work: `files` files with `bytes` in all follow; undefined if the size is unknown. */
  begin(what: string, files: number, bytes: number | undefined): void {
    this.end();
    const draw = this.#draw;
    if (draw === undefined) return;
    this.#filesDone = 0;
    this.#bytesDone = 0;
    const before = this.#moved();
    const startedMs = performance.now();
    const show = (): void => {
      const bytesDone = this.#moved();
      const line = progressLine({
        what,
        files,
        filesDone: this.#filesDone,
        bytes,
        bytesDone,
        bytesMoved: Math.max(0, bytesDone - before),
        elapsedMs: performance.now() - startedMs,
      });
      draw(drawnLine(line));
      this.#isDrawn = true;
      this.#timer = setTimeout(show, EVERY_MS).unref();
    };
    this.#timer = setTimeout(show, QUIET_MS).unref();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isDrawn) this.#draw?.(ERASED_LINE);
    this.#isDrawn = false;
  }

  #moved(): number {
    return [...this.#onTheirWay.values()].reduce((sum, bytes) => sum + bytes, this.#bytesDone);
  }
}
