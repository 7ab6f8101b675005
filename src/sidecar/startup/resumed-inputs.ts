// Results that are inputs, as a resume must fetch them: what an attempt pushed last before it died is newer than its
// record. An outdated record must not keep a task from ever starting again.
import { keptKey } from '../../model/format/keys.ts';
import { originOf } from '../../model/format/origin.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { showPath } from '../../model/path.ts';
import type { Source } from '../../restore/source.ts';
import { mayBeOverwritten, standing } from '../queue/overwritten.ts';
import type { RestoreJob } from './restore-job.ts';

/** The files as they are in the store; one that is gone is looked for like any other input. */
export async function resumedInputs(
  job: RestoreJob,
  files: readonly StoredFile[],
): Promise<readonly Source[]> {
  const { store, history, log, signal } = job;
  const otherRuns = history.attempts.some(({ sameRun }) => !sameRun);
  if (!mayBeOverwritten(history) && !otherRuns) return files;
  const sources: Source[] = [];
  for (const recorded of files) {
    const file = otherRuns ? await ownCopy(job, recorded) : recorded;
    const there = file === undefined ? undefined : await standing(store, file, signal);
    if (there !== undefined) sources.push(there);
    if (there === undefined) log.warn(`${showPath(recorded.path)} is recorded and not in the store any more`);
    else if (there !== file) log.info(`${showPath(recorded.path)} in the store is newer than its record`);
  }
  return sources;
}

/** Another run may have stored its own result under the same key; then ours was kept beside it. Undefined: nowhere. */
async function ownCopy(
  { store, scope, history, settings, signal }: RestoreJob,
  file: StoredFile,
): Promise<StoredFile | undefined> {
  const head = await store.head(file.key, signal);
  if (head?.meta['push'] === file.push) return file;
  if (head !== undefined && originOf(file.key, head.meta)?.runId === settings.identity.runId) return file;
  for (let n = history.kept.get(file.path) ?? 0; n > 0; n -= 1) {
    const key = keptKey(file.path, scope, n, file.compressed);
    if ((await store.head(key, signal))?.meta['push'] === file.push) return { ...file, key };
  }
  return undefined;
}
