// `capture restore`: does what a run does before its task, and nothing else. It claims no attempt and writes no record,
// except with `--handoff`: then it begins the attempt that a `capture watch` in the same work directory continues.
import fs from 'node:fs';
import type { Log } from '../../log/log.ts';
import { warnOnce } from '../../log/once.ts';
import { CaptureError, type Mistake, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { generationName, type History, unionOf } from '../../model/checkpoint/history.ts';
import { compileManifest } from '../../model/file/manifest.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import type { RestoreFields } from '../../model/format/message-fields.ts';
import { keyIndex, type Settings, type StoreSettings } from '../../model/format/settings.ts';
import { submissionNote } from '../../model/outcome/other-runs.ts';
import { encodePath, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { isStrangers } from '../../native/users.ts';
import { describeRecovered, recoverReclaims } from '../../reclaim/recover.ts';
import { listRecords, type RecordListing } from '../../records/list.ts';
import { readNewest } from '../../records/read.ts';
import { clearStaging } from '../../restore/fetch.ts';
import { openSealKeys, type SealKeys } from '../../seal/keys.ts';
import { sealedStore } from '../../seal/sealed-store.ts';
import type { Store } from '../../store/contract/store.ts';
import { openStore } from '../../store/open.ts';
import { findInTurns, type Walk } from '../../watch/scan.ts';
import { plain, type RestoredFacts } from '../run/attempt-file.ts';
import { type Context, OURSELVES } from '../run/context.ts';
import { openOutage } from '../run/outage.ts';
import { Progress } from '../run/progress.ts';
import { Shared } from '../run/shared.ts';
import { refuseUnreadable } from './attempt.ts';
import { recordInherited } from './baseline-scan.ts';
import { forgetHandover, handoverFor } from './handover.ts';
import { lockWorkdir } from './lock.ts';
import { isMissing, sayNothingRestored } from './opening-lines.ts';
import { openPatience, type Patience, startLimitMs } from './patience.ts';
import { restore, type Restored } from './restore.ts';
import { refuseUnopened } from './sealing.ts';
import { startAttempt } from './start.ts';

/** The last line of a restore. */
export interface RestoreSummary {
  readonly text: string;
  readonly fields: RestoreFields;
}

/** Fetches inputs and the newest good checkpoint into the work directory. */
export async function restoreOnly(settings: Settings, log: Log, given: AbortSignal): Promise<RestoreSummary> {
  const outage = openOutage(log, clockMs);
  const patience = openPatience({ limitMs: startLimitMs(settings), signal: given, outage });
  const { signal } = patience;
  const keys = await openSealKeys(settings.seal, process.env, { signal });
  const open = openerOf(keys, patience, log);
  const store = await open(settings.to);
  const from = settings.from === undefined ? store : await open(settings.from);
  const fd = fs.openSync(encodePath(settings.workdir), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
  try {
    const root = { fd, path: settings.workdir };
    const read = await readHistory(store, settings, (problem) => log.warn(problem), signal);
    const { history, scope, listing } = read;
    await refuseUnopened({ keys, inner: store, listing, signal });
    // It replaces no result, so it only says what other runs have left.
    const note = submissionNote(history, {
      before: listing.newestAttempt + 1,
      url: store.url,
      isResult: () => false,
    });
    if (note !== undefined) log[note.level](note.message, { hint: note.hint });
    const lock = lockWorkdir(settings.workdir, settings.sharedWorkdir);
    try {
      forgetHandover(settings);
      if (!settings.sharedWorkdir) {
        for (const one of recoverReclaims(root)) log.warn(describeRecovered(one));
        await clearStaging(root);
      }
      const { checkpoints, companions } = settings.manifest;
      const isAsked = checkpoints.length + companions.length > 0;
      const { generation, files } = await restore({
        settings,
        scope,
        manifest: compileManifest(settings.manifest),
        root,
        store,
        from,
        history: isAsked ? history : { ...history, generations: [] },
        log,
        caller: OURSELVES,
        progress: new Progress(log.draw),
        signal,
      });
      if (!isAsked && history.generations.length > 0)
        log.info('the checkpoint stays in the store: no --checkpoints names its files');
      else if (generation === undefined) await sayNothingRestored({ store, scope, history, log, signal });
      const where = (await isMissing(settings.to.url))
        ? `${store.url}: there is no such directory`
        : store.url;
      return summaryOf({ generation, files }, where);
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

function openerOf(keys: SealKeys, patience: Patience, log: Log): (to: StoreSettings) => Promise<Store> {
  return async (to) => {
    const warn = (warning: Mistake): void => warnOnce(log, warning);
    const opened = await openStore(to, { onTry: patience.tried, warn });
    return sealedStore(patience.over(opened), { keys, reader: 'look' });
  };
}

/** The history from the records of this index, of all its attempts. */
export async function readHistory(
  store: Store,
  settings: Settings,
  onProblem: (problem: string) => void,
  signal: AbortSignal,
): Promise<{ readonly history: History; readonly scope: KeyScope; readonly listing: RecordListing }> {
  const scope = { taskName: settings.identity.taskName, index: keyIndex(settings.identity) };
  const listing = await listRecords(store, scope, signal);
  const read = await readNewest(store, listing, { signal });
  const { records, problems } = read;
  for (const problem of problems) onProblem(problem);
  refuseUnreadable(read, settings);
  const fullRecords = records.filter(({ record }) => record.seq > 0);
  return {
    history: unionOf(fullRecords, settings.identity.runId),
    scope,
    listing,
  };
}

/**
 * `--handoff`: claims the attempt, restores, and leaves both for the `capture watch` that follows (handover.ts): the
 * claim in the store and one file in the work directory. Keeps nothing open afterwards.
 */
export async function handOver(settings: Settings, log: Log, signal: AbortSignal): Promise<RestoreSummary> {
  const outage = openOutage(log, clockMs);
  const patience = openPatience({ limitMs: startLimitMs(settings), signal, outage });
  try {
    const started = await startAttempt({
      settings,
      attempt: undefined,
      log,
      outage,
      patience,
      shared: new Shared({ isMany: false }),
      caller: OURSELVES,
      signal,
      onFenced: () => undefined,
    });
    // A restore has no option `--skip-done`.
    if (started.kind === 'done-already')
      return { text: `done already in attempt ${started.attempt}`, fields: { files: 0 } };
    const { context, restored, refused, close } = started;
    try {
      if (settings.exitFile !== undefined) removeOld(settings.exitFile);
      await record(context, restored);
      if (restored.generation === undefined)
        await sayNothingRestored({ ...context, signal: patience.signal });
    } catch (error) {
      await refused(error);
      throw error;
    } finally {
      await close();
    }
    const { text, fields } = summaryOf(restored, context.store.url);
    return { text: `attempt ${context.attempt} is ready for capture watch: ${text}`, fields };
  } finally {
    outage.close();
  }
}

function summaryOf(
  { generation, files }: Pick<Restored, 'generation' | 'files'>,
  where: string,
): RestoreSummary {
  const name = generation === undefined ? undefined : generationName(generation);
  const checkpoint = name === undefined ? 'no checkpoint' : `checkpoint ${name}`;
  const text = `restored ${checkpoint} (${plural(files, 'file')} in all) from ${where}`;
  return { text, fields: { generation: name, files } };
}

/**
 * All containers of the pod were started again, and the exit file is an earlier task's: the watch would end at once. It
 * warns of a stranger's, and waits for another one.
 */
function removeOld(exitFile: string): void {
  const path = encodePath(exitFile);
  try {
    const owner = fs.lstatSync(path, { throwIfNoEntry: false })?.uid;
    if (owner !== undefined && !isStrangers(exitFile, owner)) fs.rmSync(path, { force: true });
  } catch (error) {
    throw new CaptureError(
      EXIT.usage,
      `cannot remove the old ${showPath(exitFile)} (--exit-file): ${reasonOf(error)}`,
      { hint: 'the watch would end at once: remove it, or name another file', cause: error },
    );
  }
}

async function record(context: Context, before: Restored): Promise<void> {
  const { generation, members, judgements } = before;
  const { root, manifest, settings, signal } = context;
  const restored: RestoredFacts = {
    generation: generation === undefined ? '' : generationName(generation),
    members: members.map(({ file, facts }) => [file.path, plain(facts)]),
    judgements: [...judgements],
  };
  const scan = (onUnreadable: Walk['onUnreadable']): ReturnType<typeof findInTurns> =>
    findInTurns({ root, interest: manifest, onUnreadable }, 'thread', signal);
  await recordInherited(context, before, scan, { ...handoverFor(settings), restored });
}
