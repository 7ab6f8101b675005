// Opens the watcher of a run: from the moment that stock is taken each close goes to files, with what a look at the
// task's processes says of it, and a queue that overflowed to the checkpoint sets.
import type { ClosedEvent } from '../../model/file/events.ts';
import { openWatcher } from '../../watch/watcher.ts';
import { type Watcher } from '../../watch/watching.ts';
import type { Witness } from '../../watch/witness.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { Files } from '../queue/files.ts';
import type { Context } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';

export interface Watching {
  readonly context: Context;
  readonly files: Files;
  readonly generations: Generations;
  /** Undefined where nobody can see who closes a file. */
  readonly witness: Witness | undefined;
  /** Its watcher is set when stock was taken. */
  readonly watching: { watcher: Watcher | undefined };
}

export async function watchFor(parts: Watching): Promise<Watcher> {
  const { root, manifest, settings, log } = parts.context;
  const onClosed = ({ path, how, atMs, evidence }: ClosedEvent): void => {
    // Until stock is taken, files come and go that are not the task's.
    if (parts.watching.watcher === undefined) return;
    // A scan tells every declared file that it sees, also those that nobody touched.
    const fingerprint = how === 'scan' || how === 'quiet' ? statMember(root, path) : undefined;
    parts.files.closed(path, how, atMs, { fingerprint, evidence });
  };
  return openWatcher({
    root,
    interest: manifest,
    onClosed,
    onOverflow: () => parts.generations.overflowed(),
    onWarning: (message, hint) => log.warn(message, { hint }),
    rescanMs: settings.rescanMs,
    witness: parts.witness,
  });
}
