// The last look at the whole tree, when the task and all its writers are gone: finds what no event told of. So a
// missed event costs time, but never a file. What cannot be looked at is reported as left.
import { reasonOf } from '../../model/errors.ts';
import type { LeftFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { lstatBeneath, type WorkDir } from '../../native/beneath.ts';
import type { FinishParts } from './parts.ts';

/** Reports all that it finds as closed. Resolves to what may hold declared files and could not be looked at. */
export async function finalScan(
  { context, files, watcher }: Pick<FinishParts, 'context' | 'files' | 'watcher'>,
  deadline: AbortSignal,
): Promise<readonly LeftFile[]> {
  watcher.drainNow();
  const unseen = new Map<RelPath, string>();
  const onUnreadable = (dir: RelPath, error: unknown): void => {
    if (isOurs(context.root, dir)) unseen.set(dir, `cannot look into it: ${reasonOf(error)}`);
  };
  try {
    for await (const found of watcher.scan(deadline, onUnreadable))
      for (const { path, facts } of found) files.closed(path, 'scan', context.now(), { fingerprint: facts });
  } catch (error) {
    if (!deadline.aborted) throw error;
    unseen.set('.', 'no time was left to look for what gave no event');
  }
  return [...unseen].map(([path, why]) => ({ path, why }));
}

/** A directory that we may not read and that belongs to somebody else (lost+found) is none that the task wrote in. */
function isOurs(root: WorkDir, dir: RelPath): boolean {
  try {
    return Number(lstatBeneath(root, dir)?.uid) === process.getuid?.();
  } catch {
    return true; // Not even that can be seen.
  }
}
