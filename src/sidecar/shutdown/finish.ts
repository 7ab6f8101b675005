// The end of the run: scans, makes everything durable, commits the last checkpoint, writes the last record, reclaims,
// and says what was stored, what was left and why. The exit status that it returns tells the truth.
import { reasonOf } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { isDone } from '../../model/file/decide.ts';
import type { Close, Fingerprint } from '../../model/file/file-state.ts';
import { type Ending, isSuspect } from '../../model/file/suspect.ts';
import type { LeftFile } from '../../model/format/records.ts';
import { type Verdict, verdictOf } from '../../model/outcome/verdict.ts';
import type { RelPath } from '../../model/path.ts';
import { lstatBeneath, type WorkDir } from '../../native/beneath.ts';
import { reached } from '../../native/failpoint.ts';
import { factsBeneath } from '../../native/files.ts';
import { isLost, StoreError } from '../../store/contract/store.ts';
import { dropCheckpoints } from '../checkpoints/generation-record.ts';
import { pushOverwritten } from '../queue/overwritten.ts';
import { contentClose } from '../run/content-close.ts';
import type { Needs } from '../run/context.ts';
import { retryUntil } from './drain-window.ts';
import { deleteOrphanedObjects, resolveEarlier } from './earlier.ts';
import {
  endingOf,
  type FinishParts,
  halfWritten,
  hasSucceeded,
  missingResults,
  outcomeOf,
  type RunEnd,
  trustHint,
  verdictWhenLost,
} from './outcome.ts';
import { judgeResults, nameResults } from './result-names.ts';
import { lastLine, type LastLine, leftFiles, warnOfNames } from './report.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'root' | 'log' | 'ledger' | 'tidy' | 'signal' | 'progress' | 'outage' | 'now'>;

export interface Finished {
  readonly status: ExitStatus;
  /** All that the task closed is stored, and a record says how it ended: the work directory may go. */
  readonly isSaved: boolean;
  /** A further attempt would end the same way. */
  readonly isInVain: boolean;
  readonly last: LastLine;
}

export async function finish(parts: FinishParts, run: RunEnd): Promise<Finished> {
  const { context, files, generations, recorder, window } = parts;
  const ending = endingOf(run, context.settings.endRules, context.now());
  const deadline = window.files;
  context.ledger.until(window.record);
  generations.pause();
  parts.resources.taskEnded(run.usage);
  await markDeath(parts, run, ending);
  const unseen = await finalScan(parts, deadline);
  reached('finish.scanned');
  const unfinished = hasSucceeded(run) ? adoptWhatStands(parts) : [];
  const ofDeath = judgeResults(parts, run, { ending, unfinished });
  files.hurry();
  context.outage.drains(window.lengthMs);
  showWaiting(parts);
  // What there is of a checkpoint is committed before results use up the time.
  await files.drained(deadline, 'checkpoint');
  const postponed = await lastGeneration(parts, ending);
  await files.drained(deadline);
  context.progress.end();
  const unnamed = await nameResults(parts, ofDeath);
  const isConfirmed = (path: RelPath): boolean => parts.results.isConfirmed(path);
  const looking = { files, isConfirmed, withEarlier: hasSucceeded(run), deadline };
  const overwritten = ending.clean ? await pushOverwritten(context, looking) : [];
  reached('finish.drained');
  files.stop();
  await recorder.stop();
  // After all that counts, and before the record by which a reader sees that there is no more to come.
  await parts.outputs?.last(deadline);
  const unsaved = [
    ...unseen,
    ...leftFiles(parts, postponed),
    ...overwritten,
    ...unnamed,
    ...halfWritten(parts, run, ending),
  ];
  const left = [...unsaved, ...missingResults(parts, run, unsaved)];
  const own = verdictOf(outcomeOf(parts, run, left));
  const earlier = isWell(own) ? await resolveEarlier(parts, unfinished, window.record) : undefined;
  const told = [...left, ...(earlier?.left ?? [])];
  let verdict = verdictOf(outcomeOf(parts, run, told));
  const dropped = verdict.kind === 'done' ? dropCheckpoints(context) : [];
  reached('finish.before-record');
  const recorded = await lastRecord(parts, run, verdict, told);
  reached('finish.after-record');
  if (!recorded && context.outage.isLost) verdict = verdictWhenLost(verdict);
  let status = recorded || verdict.status !== EXIT.ok ? verdict.status : EXIT.notStored;
  if (recorded) {
    await deleteObsolete(context, [...dropped, ...(earlier?.obsolete ?? [])], window.record);
    await parts.results.deleteObsolete().catch((error: unknown) => context.log.warn(reasonOf(error)));
    await parts.reclaims.atEnd(parts).catch((error: unknown) => {
      context.log.warn(`local files stay: ${reasonOf(error)}`);
      if (isLost(error) && status === EXIT.ok) status = EXIT.notStored;
    });
    reached('finish.reclaimed');
    if (own.kind === 'done') await deleteOrphanedObjects(context, checkpointsSeen(parts), window.record);
  }
  if (verdict.kind === 'done') warnOfNames(parts);
  const isSaved = recorded && unsaved.length === 0;
  const isInVain = verdict.kind === 'failed' && (verdict.reason !== undefined || earlier?.isLasting === true);
  return { status, isSaved, isInVain, last: lastLine(parts, { left: told, recorded, verdict, status, run }) };
}

/** Also if nobody knows how the task ended: exit status 0 says of all results that they are whole. */
function isWell({ kind, status }: Verdict): boolean {
  return kind === 'done' || (kind === 'ended' && status === EXIT.ok);
}

/**
 * The last look at the whole tree, when the task and all its writers are gone: finds what no event told of, and reports
 * it as closed. So a missed event costs time, but never a file. Resolves to what may hold declared files and could not
 * be looked at.
 */
async function finalScan(parts: FinishParts, deadline: AbortSignal): Promise<readonly LeftFile[]> {
  const { context, files, watcher } = parts;
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
  dropOlder(parts);
  return [...unseen].map(([path, why]) => ({ path, why }));
}

/** Checkpoints that `--newest` leaves out of the last set are not sent for it. */
function dropOlder({ context, files, generations }: FinishParts): void {
  if (context.settings.manifest.newest === undefined) return;
  const members = new Set(generations.members());
  files.drop((path) => !members.has(path) && factsBeneath(context.root, path) !== undefined);
}

/** A directory that we may not read and that belongs to somebody else (lost+found) is none that the task wrote in. */
function isOurs(root: WorkDir, dir: RelPath): boolean {
  try {
    return Number(lstatBeneath(root, dir)?.uid) === process.getuid?.();
  } catch {
    return true; // Not even that can be seen.
  }
}

/**
 * Results that the task inherited and did not touch are its own, too. But not those that came with the checkpoint as
 * far as they were written then, because nobody has finished them; and none in the very state that an earlier attempt
 * has staged, as a death may have left it: what is staged is judged. Returns results that came with the checkpoint, but for those of which
 * the store holds that state or a newer one.
 */
function adoptWhatStands({ context, files, openResults, suspects }: FinishParts): readonly RelPath[] {
  const unfinished = openResults.unfinished();
  const isStored = (path: RelPath): boolean => openResults.isStored(path);
  const notStored = unfinished.filter((path) => !isStored(path));
  for (const path of notStored)
    suspects.set(path, { why: 'the task has not gone on with it after the resume' });
  const isUnfinished = new Set(unfinished.filter(isStored));
  const stateOf = (path: RelPath, { size, mtimeNs }: Pick<Fingerprint, 'size' | 'mtimeNs'>): string =>
    `${size} ${mtimeNs} ${path}`;
  const staged = new Set(
    context.history.partials.filter(({ suspect }) => suspect === true).map((one) => stateOf(one.path, one)),
  );
  files.adoptInherited((path, inherited) => isUnfinished.has(path) || staged.has(stateOf(path, inherited)));
  return notStored;
}

/** Before anything else: whatever happens to us now, the next attempt must not take for good what a death left. */
async function markDeath(parts: FinishParts, run: RunEnd, ending: Ending): Promise<void> {
  const { context, generations, watcher, window } = parts;
  // While we are busy with that, no name may be given as if the task lived on.
  parts.results.staged.ended((_, close) => isSuspect(close, ending));
  watcher.drainNow();
  const ofDeath = generations.members().filter((path) => isSuspect(memberClose(parts, path), ending));
  if (ofDeath.length === 0) return;
  try {
    const hint = trustHint(run);
    await retryUntil(() => generations.commits.markDeath(ofDeath, context.signal, hint), window.record);
  } catch (error) {
    if (!context.signal.aborted)
      context.log.warn(`a checkpoint that may be half-written could not be marked: ${reasonOf(error)}`);
  }
}

/** Of the content that stands there. */
function memberClose({ context, files }: FinishParts, path: RelPath): Close | undefined {
  const { lastClose } = files.get(path, 'checkpoint') ?? {};
  const facts = factsBeneath(context.root, path);
  return facts === undefined ? lastClose : contentClose(context, lastClose, facts);
}

function checkpointsSeen({ files, companions }: FinishParts): readonly RelPath[] {
  return [...files.paths('checkpoint'), ...(companions.seen ?? [])];
}

/** Shows from now on how far the drain is. */
function showWaiting({ context, files }: FinishParts): void {
  let count = 0;
  let bytes = 0;
  for (const role of ['result', 'checkpoint'] as const) {
    for (const fileState of files.outstanding(role)) {
      if (isDone(fileState)) continue;
      count += 1;
      bytes += factsBeneath(context.root, fileState.path)?.size ?? 0;
    }
  }
  context.progress.begin('storing', count, bytes);
}

async function lastGeneration(parts: FinishParts, ending: Ending): Promise<readonly RelPath[]> {
  const { context, generations, window } = parts;
  const suspect = (path: RelPath): boolean => isSuspect(memberClose(parts, path), ending);
  const { clean, endedAtMs: nowMs } = ending;
  const cut = { clean, nowMs, suspect, deadline: window.files };
  try {
    return await retryUntil(() => generations.final(cut), window.files);
  } catch (error) {
    if (!context.signal.aborted)
      context.log.warn(`the last checkpoint could not be committed: ${reasonOf(error)}`);
    return generations.members();
  }
}

/** After the last record: deletes the partial results of what is stored whole. A failure only costs space. */
async function deleteObsolete(
  { tidy, log }: Uses,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  if (keys.length === 0) return;
  try {
    await tidy.delete([...keys], signal);
  } catch (error) {
    log.debug(`partial results that were stored whole since stay: ${reasonOf(error)}`);
  }
}

/** True when the record that closes the attempt is in the store. */
async function lastRecord(
  { context, window }: FinishParts,
  run: RunEnd,
  verdict: Verdict,
  left: readonly LeftFile[],
): Promise<boolean> {
  const { end, reason } = run;
  try {
    const told = {
      code: end?.code,
      signal: end?.signal,
      status: verdict.status,
      reason: reason ?? verdict.reason,
    };
    await retryUntil(
      () => context.ledger.write(verdict.kind, { left, end: told }, context.signal),
      window.record,
    );
    return true;
  } catch (error) {
    if (!context.signal.aborted)
      context.log.error(`the last record could not be written: ${reasonOf(error)}`, {
        hint: error instanceof StoreError ? error.hint : undefined,
      });
    return false;
  }
}
