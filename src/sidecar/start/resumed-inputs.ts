// Results that are inputs, as a resume has to bring them: what an attempt pushed last before it died is newer
// than its record. A record that is behind must not keep a task from ever starting again.
import type { History } from '../../core/history.ts';
import { showPath } from '../../core/path.ts';
import type { StoredFile } from '../../core/records.ts';
import type { Log } from '../../log.ts';
import type { Source } from '../../restore/source.ts';
import type { Store } from '../../store/store.ts';
import { mayBeOverwritten, standing } from '../files/overwritten.ts';

/** The files as they stand in the store; one that is gone is looked for as any other input is. */
export async function resumedInputs(
  store: Store,
  history: History,
  files: readonly StoredFile[],
  log: Log,
  signal: AbortSignal,
): Promise<readonly Source[]> {
  if (!mayBeOverwritten(history)) return files;
  const sources: Source[] = [];
  for (const file of files) {
    const there = await standing(store, file, signal);
    if (there !== undefined) sources.push(there);
    if (there === undefined) log.warn(`${showPath(file.path)} is recorded and not in the store any more`);
    else if (there !== file) log.info(`${showPath(file.path)} in the store is newer than its record`);
  }
  return sources;
}
