// Warnings for the user that files may be found late, and what to do about it. Each kind is given once: what is true of
// one directory is true of many.
import { errnoOf, reasonOf } from '../model/errors.ts';
import { showPath, type RelPath } from '../model/path.ts';
import { formatMs } from '../model/units.ts';

interface Warning {
  readonly kind: 'no-inotify' | 'scans-alone' | 'uncovered' | 'forbidden' | 'network';
  readonly message: string;
  readonly hint: string;
}

const NOTHING_IS_LOST = 'nothing is lost: capture scans at each flush and at the end of the task';

/**
 * Gives the first warning of each kind, and not at once: a warning may arise while the kernel's events are processed,
 * where no foreign code may run.
 */
export class Warnings {
  readonly #onWarning: (message: string, hint: string) => void;
  readonly #said = new Set<Warning['kind']>();

  constructor(onWarning: (message: string, hint: string) => void) {
    this.#onWarning = onWarning;
  }

  say({ kind, message, hint }: Warning): void {
    if (this.#said.has(kind)) return;
    this.#said.add(kind);
    queueMicrotask(() => this.#onWarning(message, hint));
  }
}

/** inotify cannot be used at all, but the portable watcher can. */
export function noInotify(root: string, reason: unknown, rescanMs: number): Warning {
  return {
    kind: 'no-inotify',
    message:
      `cannot watch for closes in ${showPath(root)}: ${reasonOf(reason)}; ` +
      `files are taken once they have been quiet for a while, or by a scan every ${formatMs(rescanMs)}`,
    hint: limitHint(reason) ?? NOTHING_IS_LOST,
  };
}

/** Neither watcher can be used; `more` follows the reason. */
export function scansAlone(more: string): typeof noInotify {
  return (root, reason, rescanMs) => ({
    kind: 'scans-alone',
    message: `cannot watch ${showPath(root)}: ${reasonOf(reason)}${more}; a scan every ${formatMs(rescanMs)} finds files`,
    hint: limitHint(reason) ?? `${NOTHING_IS_LOST}; shorten --rescan if files must be safe sooner`,
  });
}

/** One directory, and perhaps more, reports no events. */
export function noEvents(dir: RelPath, reason: unknown, rescanMs: number): Warning {
  return {
    kind: 'uncovered',
    message:
      `cannot watch ${dir === '' ? 'the work directory' : showPath(dir)}: ${reasonOf(reason)}; ` +
      `files there, and in further directories, are found by a scan every ${formatMs(rescanMs)}`,
    hint: limitHint(reason) ?? NOTHING_IS_LOST,
  };
}

/** A directory may not be read: no scan helps. */
export function forbidden(dir: RelPath, reason: unknown): Warning {
  return {
    kind: 'forbidden',
    message: `cannot look into ${showPath(dir)}: ${reasonOf(reason)}; what is in it is not captured`,
    hint: 'give the user that runs the task the right to read this directory',
  };
}

export function networkFiles(root: string, type: string, rescanMs: number): Warning {
  return {
    kind: 'network',
    message:
      `${showPath(root)} is on a network file system (${type}): a file that another node writes ` +
      `causes no event and is found by a scan every ${formatMs(rescanMs)}`,
    hint: 'let the task work in a local directory or in memory (--workdir), or shorten --rescan',
  };
}

/** How to raise the inotify limit that was reached. */
export function limitHint(reason: unknown): string | undefined {
  switch (errnoOf(reason)) {
    case 'EMFILE':
      return 'raise the limit as root: sysctl fs.inotify.max_user_instances=1024 (or ulimit -n, if that is low)';
    case 'ENOSPC':
      return 'raise the limit as root: sysctl fs.inotify.max_user_watches=1048576';
    default:
      return undefined;
  }
}
