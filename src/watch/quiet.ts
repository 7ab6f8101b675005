// Where no event says that a file was closed: it counts as closed when it has not changed for a while. A timer
// runs only while a file is waiting.
import { sameFingerprint } from '../model/file/fingerprint.ts';
import type { RelPath } from '../model/path.ts';
import type { FoundFile } from './scan.ts';

export interface QuietFiles {
  /** Something happened to this file: wait until nothing does. */
  watch(path: RelPath): void;
  close(): void;
}

interface Waiting {
  readonly file: FoundFile;
  readonly sinceMs: number;
}

/** Looks at a waiting file so often within the quiet time. */
const LOOKS = 4;

/** `look` is lstat; `onQuiet` is called once for each change that was followed by `quietMs` without one. */
export function openQuietFiles(options: {
  readonly quietMs: number;
  readonly look: (path: RelPath) => FoundFile | undefined;
  readonly onQuiet: (file: FoundFile) => void;
}): QuietFiles {
  const waiting = new Map<RelPath, Waiting>();
  let timer: NodeJS.Timeout | undefined;
  const arm = (): void => {
    if (waiting.size > 0) timer ??= setTimeout(lookAgain, options.quietMs / LOOKS);
  };
  const lookAgain = (): void => {
    timer = undefined;
    const nowMs = performance.now();
    for (const [path, { file, sinceMs }] of waiting) {
      const now = options.look(path);
      if (now === undefined) waiting.delete(path);
      else if (!sameFingerprint(now.facts, file.facts)) waiting.set(path, { file: now, sinceMs: nowMs });
      else if (nowMs - sinceMs >= options.quietMs) {
        waiting.delete(path);
        options.onQuiet(now);
      }
    }
    arm();
  };
  return {
    watch: (path) => {
      if (waiting.has(path)) return;
      const file = options.look(path);
      if (file !== undefined) waiting.set(path, { file, sinceMs: performance.now() });
      arm();
    },
    close: () => {
      clearTimeout(timer);
      waiting.clear();
    },
  };
}
