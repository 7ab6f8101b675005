// `capture restore`: does what a run does before its task, and nothing else. Claims no attempt, writes no record.
import fs from 'node:fs';
import type { Log } from '../../log/log.ts';
import { generationName, type History, unionOf } from '../../model/checkpoint/history.ts';
import { compileManifest } from '../../model/file/manifest.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import { keyIndex, type Settings, type StoreSettings } from '../../model/format/settings.ts';
import { submissionNote } from '../../model/outcome/other-runs.ts';
import { encodePath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { describeRecovered, recoverReclaims } from '../../reclaim/recover.ts';
import { listRecords } from '../../records/list.ts';
import { readNewest } from '../../records/read.ts';
import { clearStaging } from '../../restore/fetch.ts';
import type { Store } from '../../store/contract/store.ts';
import { openStore } from '../../store/open.ts';
import { Outage } from '../run/outage.ts';
import { Progress } from '../run/progress.ts';
import { forgetHandover } from './handover.ts';
import { lockWorkdir } from './lock.ts';
import { isMissing } from './new-store.ts';
import { sayNothingRestored } from './opening-lines.ts';
import { Patience, startLimitMs } from './patience.ts';
import { restore } from './restore.ts';
import { refuseUnreadable } from './unreadable.ts';

/** What the records of this index say, of all its attempts. */
export async function readHistory(
  store: Store,
  settings: Settings,
  onProblem: (problem: string) => void,
  signal: AbortSignal,
): Promise<{ readonly history: History; readonly scope: KeyScope; readonly newestAttempt: number }> {
  const scope = { taskName: settings.identity.taskName, index: keyIndex(settings.identity) };
  const listing = await listRecords(store, scope, signal);
  const read = await readNewest(store, listing, { signal });
  const { records, problems } = read;
  for (const problem of problems) onProblem(problem);
  refuseUnreadable(read, settings);
  const told = records.filter(({ record }) => record.seq > 0);
  return { history: unionOf(told, settings.identity.runId), scope, newestAttempt: listing.newestAttempt };
}

/** Fetches inputs and the newest good checkpoint into the work directory; resolves to what it did. */
export async function restoreOnly(settings: Settings, log: Log, given: AbortSignal): Promise<string> {
  const outage = new Outage(log, clockMs);
  const patience = new Patience({ limitMs: startLimitMs(settings), signal: given, outage });
  const { signal } = patience;
  const open = async (to: StoreSettings): Promise<Store> =>
    patience.over(await openStore(to, { onTry: outage.tried }));
  const store = await open(settings.to);
  const from = settings.from === undefined ? store : await open(settings.from);
  const fd = fs.openSync(encodePath(settings.workdir), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  try {
    const root = { fd, path: settings.workdir };
    const read = await readHistory(store, settings, (problem) => log.warn(problem), signal);
    const { history, scope, newestAttempt: before } = read;
    // It replaces no result, so it only says what other runs have left.
    const note = submissionNote(history, { before: before + 1, url: store.url, isResult: () => false });
    if (note !== undefined) log[note.level](note.message, { hint: note.hint });
    const lock = lockWorkdir(settings.workdir, settings.sharedWorkdir);
    try {
      forgetHandover(settings);
      if (!settings.sharedWorkdir) {
        for (const one of await recoverReclaims(root)) log.warn(describeRecovered(one));
        await clearStaging(root);
      }
      const { generation, files } = await restore({
        settings,
        scope,
        manifest: compileManifest(settings.manifest),
        root,
        store,
        from,
        history,
        log,
        progress: new Progress(log.draw),
        signal,
      });
      if (generation === undefined) await sayNothingRestored({ store, scope, history, log, signal });
      const checkpoint =
        generation === undefined ? 'no checkpoint' : `checkpoint ${generationName(generation)}`;
      const where = isMissing(settings.to.url) ? `${store.url}: there is no such directory` : store.url;
      return `restored ${checkpoint} (${plural(files, 'file')} in all) from ${where}`;
    } finally {
      lock.close();
    }
  } finally {
    fs.closeSync(fd);
    patience.close();
    outage.close();
    if (from !== store) await from.close();
    await store.close();
  }
}
