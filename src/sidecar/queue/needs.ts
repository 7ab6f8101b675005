// What flushes wait for: the content that declared files had at one moment. Says which files are pushed without
// pacing, and resolves each wait as soon as its last file is over. A task that goes on writing cannot prolong the
// wait.
import { isOver } from '../../model/file/decide.ts';
import type { FileState } from '../../model/file/file-state.ts';
import { createDeferred } from '../../model/waiting.ts';
import type { FileKey } from './file-states.ts';

/** The content of one moment. One flush waits for it, or several that came at the same moment. */
export interface Need {
  /** Resolves to true once nothing of it is waited for any more, durable or not; to false when `signal` aborts. */
  met(signal: AbortSignal): Promise<boolean>;
  /** Of the files that it began with, those whose content is not durable, as they are now. */
  unmet(): readonly FileState[];
  /** Ends it: no file is hurried for it any more. */
  close(): void;
}

interface Wait {
  readonly vouched: boolean;
  /** By key the number of closes whose content is needed. */
  readonly open: Map<FileKey, number>;
  readonly done: () => void;
}

export class Needs {
  readonly #waits = new Set<Wait>();
  readonly #isHeld: (fileState: FileState) => boolean;

  /** Held files are not waited for: they are pushed only after the task has ended. */
  constructor(isHeld: (fileState: FileState) => boolean) {
    this.#isHeld = isHeld;
  }

  /** True while somebody waits for this file. */
  has(key: FileKey): boolean {
    for (const { open } of this.#waits) if (open.has(key)) return true;
    return false;
  }

  /** True while the task itself waits for this file. */
  vouches(key: FileKey): boolean {
    for (const { open, vouched } of this.#waits) if (vouched && open.has(key)) return true;
    return false;
  }

  /** Call it with every change of a file state. */
  changed(key: FileKey, fileState: FileState): void {
    for (const wait of this.#waits) {
      const closes = wait.open.get(key);
      if (closes === undefined || !this.#isOver(fileState, closes)) continue;
      wait.open.delete(key);
      if (wait.open.size === 0) wait.done();
    }
  }

  /**
   * `wanted`: number of closes by key. `now`: gives a file state as it is when asked. `vouched`: the task itself
   * asks.
   */
  need(
    wanted: ReadonlyMap<FileKey, number>,
    now: (key: FileKey) => FileState | undefined,
    vouched = true,
  ): Need {
    const open = new Map<FileKey, number>();
    for (const [key, closes] of wanted) {
      const fileState = now(key);
      if (fileState !== undefined && !this.#isOver(fileState, closes)) open.set(key, closes);
    }
    const all = createDeferred<void>();
    const wait: Wait = { vouched, open, done: all.resolve };
    this.#waits.add(wait);
    return {
      met: async (signal) => {
        if (open.size === 0 || signal.aborted) return open.size === 0;
        const end = createDeferred<void>();
        const aborted = (): void => end.resolve();
        signal.addEventListener('abort', aborted, { once: true });
        await Promise.race([all.promise, end.promise]);
        signal.removeEventListener('abort', aborted);
        return open.size === 0;
      },
      unmet: () =>
        [...wanted].flatMap(([key, closes]) => {
          const fileState = now(key);
          return fileState === undefined || fileState.durableCloses >= closes ? [] : [fileState];
        }),
      close: () => this.#waits.delete(wait),
    };
  }
  #isOver(fileState: FileState, closes: number): boolean {
    return this.#isHeld(fileState) || isOver(fileState, closes);
  }
}
