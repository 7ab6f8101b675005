// Opens the watcher of a run. What it reports before somebody listens is dropped: until the baseline scan, files that
// come and go are not the task's.
import type { ClosedEvent } from '../../model/file/file-state.ts';
import { openWatcher } from '../../watch/watcher.ts';
import type { Watcher } from '../../watch/watching.ts';
import type { Witness } from '../../watch/witness.ts';
import type { Needs } from '../run/context.ts';

export interface WatchListener {
  readonly onClosed: (event: ClosedEvent) => void;
  /** Closes were lost; all declared files are reported again. */
  readonly onOverflow: () => void;
}

export interface Watch {
  readonly watcher: Watcher;
  /** From now on `listener` is told what the task closes. */
  readonly listen: (listener: WatchListener) => void;
}

/** `witness`: undefined if nobody can see who closes a file. */
export async function openWatch(
  { root, manifest, settings, log }: Needs<'root' | 'manifest' | 'settings' | 'log'>,
  witness: Witness | undefined,
): Promise<Watch> {
  let told: WatchListener | undefined;
  const watcher = await openWatcher({
    root,
    interest: manifest,
    onClosed: (event) => told?.onClosed(event),
    onOverflow: () => told?.onOverflow(),
    onWarning: (message, hint) => log.warn(message, { hint }),
    rescanMs: settings.rescanMs,
    witness,
  });
  return {
    watcher,
    listen: (listener) => {
      told = listener;
    },
  };
}
