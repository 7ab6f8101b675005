// The end of the run: scans, makes everything durable, commits the last checkpoint, writes the last record, reclaims,
// and reports what was stored, what was left and why. The exit status that it returns tells the truth.
import { reasonOf } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { lostBehindLinks, TO_STORE } from '../../model/file/behind-link.ts';
import { type Close, type Fingerprint, sameFingerprint } from '../../model/file/file-state.ts';
import { type TaskEnding, isSuspect } from '../../model/file/suspect.ts';
import type { LeftFile } from '../../model/format/records.ts';
import { type Verdict, verdictOf } from '../../model/outcome/verdict.ts';
import type { RelPath } from '../../model/path.ts';
import { whereabouts } from '../../native/beneath.ts';
import { reached } from '../../native/failpoint.ts';
import { directoryState, factsBeneath } from '../../native/files.ts';
import { isLost, StoreError } from '../../store/contract/store.ts';
import { dropCheckpoints } from '../checkpoints/generation-record.ts';
import { pushOverwritten } from '../queue/overwritten.ts';
import { contentClose } from '../run/content-close.ts';
import type { Needs } from '../run/context.ts';
import { type Cause, causesOf, whyAsked, withCauses } from './causes.ts';
import { retryUntil } from './drain-window.ts';
import { resolveEarlier } from './earlier.ts';
import { deleteOrphanedObjects } from './orphaned-objects.ts';
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
import { lastLine, type LastLine, leftFiles, warnOfLinks, warnOfNames } from './report.ts';

type FinishContext = Needs<
  'settings' | 'root' | 'log' | 'ledger' | 'tidy' | 'signal' | 'progress' | 'outage' | 'now'
>;

export interface Finished {
  readonly status: ExitStatus;
  /** Everything that the task closed is stored, and a record says how it ended: the work directory may be removed. */
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
  parts.resources.taskEnded(run.usage, run.outOfMemory);
  const causes = causesOf(parts, run);
  await markDeath(parts, run, ending);
  const unseen = await finalScan(parts, deadline);
  reached('finish.scanned');
  const unfinished = hasSucceeded(run) ? adoptWhatStands(parts) : [];
  const ofDeath = judgeResults(parts, run, { ending, unfinished });
  files.hurry();
  beginDrain(parts);
  // The checkpoint, as far as it exists, is committed before results use up the time.
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
  const unsaved = [
    ...unseen,
    ...(await leftFiles(parts, postponed)),
    ...overwritten,
    ...unnamed,
    ...halfWritten(parts, run, ending),
  ];
  const left = [...unsaved, ...missingResults(parts, run, unsaved)];
  const own = verdictOf(outcomeOf(parts, run, left));
  const earlier = isWell(own) ? await resolveEarlier(parts, unfinished, window.record) : undefined;
  const allLeft = [...left, ...(earlier?.left ?? [])];
  let verdict = verdictOf(outcomeOf(parts, run, allLeft));
  const dropped = verdict.kind === 'done' ? dropCheckpoints(context) : [];
  // After everything that counts, and before the record that tells a reader that nothing more follows.
  const noOutput = await parts.outputs.last(deadline, verdict.kind === 'failed');
  reached('finish.before-record');
  const recorded = await lastRecord(parts, { ...run, causes: await causes, noOutput }, verdict, allLeft);
  reached('finish.after-record');
  if (!recorded && context.outage.isLost) verdict = verdictWhenLost(verdict);
  let status = recorded || verdict.status !== EXIT.ok ? verdict.status : EXIT.notStored;
  if (recorded) {
    await deleteObsolete(context, [...dropped, ...(earlier?.obsolete ?? [])], window.record);
    await parts.results.deleteObsolete().catch((error: unknown) => context.log.warn(reasonOf(error)));
    await parts.reclaims.atEnd(parts, verdict.kind).catch((error: unknown) => {
      context.log.warn(`local files stay: ${reasonOf(error)}`);
      if (isLost(error) && status === EXIT.ok) status = EXIT.notStored;
    });
    reached('finish.reclaimed');
    if (own.kind === 'done') await deleteOrphanedObjects(context, checkpointsSeen(parts), window.record);
  }
  if (verdict.kind === 'done') warnOfNames(parts);
  const isInVain = verdict.kind === 'failed' && (verdict.reason !== undefined || earlier?.isLasting === true);
  const said = { left: allLeft, recorded, verdict, status, run, causes: await causes };
  return { status, isSaved: recorded && unsaved.length === 0, isInVain, last: await lastLine(parts, said) };
}

/** Also if it is unknown how the task ended: exit status 0 says that all results are whole. */
function isWell({ kind, status }: Verdict): boolean {
  return kind === 'done' || (kind === 'ended' && status === EXIT.ok);
}

/**
 * The last look at the whole tree, after the task and all its writers have ended: finds files that no event reported,
 * and reports them as closed. So a missed event costs time, but never a file. Resolves to what it could not look at:
 * directories that could not be read, and declared files behind links to directories.
 */
async function finalScan(parts: FinishParts, deadline: AbortSignal): Promise<readonly LeftFile[]> {
  const { context, files, watcher } = parts;
  watcher.drainNow();
  const unseen = new Map<RelPath, string>();
  const onUnreadable = (dir: RelPath, error: unknown): void => {
    if (!isAsBefore(context, dir)) unseen.set(dir, `cannot look into it: ${reasonOf(error)}`);
  };
  try {
    const links: RelPath[] = [];
    for await (const found of watcher.scan(deadline, onUnreadable))
      for (const { path, facts, link } of found) {
        files.closed(path, 'scan', context.now(), { fingerprint: facts });
        if (link) links.push(path);
      }
    warnOfLinks(parts, links);
    const isLost = lostBehindLinks(context.manifest, TO_STORE);
    const lost = await watcher.links.lost(isLost, Date.parse(context.startedAt), deadline);
    for (const { path, why } of lost) unseen.set(path, why);
  } catch (error) {
    if (!deadline.aborted) throw error;
    unseen.set('.', 'no time was left to look for what gave no event');
  }
  const where = whereabouts(context.root);
  if (where === 'covered' || where === 'unreachable') unseen.set('.', WHY_UNSEEN[where]);
  dropOlder(parts);
  return [...unseen].map(([path, why]) => ({ path, why }));
}

const WHY_UNSEEN = {
  covered: 'a file system is mounted over it: what was closed on that is not seen',
  unreachable: 'its path cannot be looked at: what was closed there may not be seen',
};

/** Drops the checkpoints that `--newest` leaves out of the last set. */
function dropOlder({ context, files, generations }: FinishParts): void {
  if (context.settings.manifest.newest === undefined) return;
  const members = new Set(generations.members());
  files.drop((path) => !members.has(path) && factsBeneath(context.root, path) !== undefined);
}

/**
 * A directory of another user that could not be read before the task either, and in which nothing was made since
 * (lost+found). The task may have another user than we, so any other directory may hold what it closed.
 */
function isAsBefore({ root, shut }: FinishParts['context'], dir: RelPath): boolean {
  const before = shut.get(dir);
  const now = before && directoryState(root, dir);
  return before !== undefined && now !== undefined && sameFingerprint(before, now.facts);
}

/**
 * Results that the task inherited and did not touch count as its own. Two kinds are excepted. Results that came with
 * the checkpoint, as far as they were written then, are not finished. Results in exactly the state that an earlier
 * attempt has staged may be half-written: the staged object is judged instead. Returns the results that came with the
 * checkpoint, except those that the store holds in that state or a newer one.
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

/**
 * Before anything else: whatever happens to us now, the next attempt must not trust files that a dying process left
 * half-written.
 */
async function markDeath(parts: FinishParts, run: RunEnd, ending: TaskEnding): Promise<void> {
  const { context, generations, watcher, window } = parts;
  // Meanwhile no result may get its name as if the task were still alive.
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

/** The close of the content that is at the path now. */
function memberClose({ context, files }: FinishParts, path: RelPath): Close | undefined {
  const { lastClose } = files.get(path, 'checkpoint') ?? {};
  const facts = factsBeneath(context.root, path);
  return facts === undefined ? lastClose : contentClose(context, lastClose, facts);
}

function checkpointsSeen({ files, companions }: FinishParts): readonly RelPath[] {
  return [...files.paths('checkpoint'), ...(companions.seen ?? [])];
}

/** From now on shows how far the drain is. */
function beginDrain({ context, gauges, window }: FinishParts): void {
  context.outage.drains(window.lengthMs);
  const { waitingFiles, waitingBytes } = gauges.waiting;
  context.progress.begin('storing', waitingFiles, waitingBytes);
}

async function lastGeneration(parts: FinishParts, ending: TaskEnding): Promise<readonly RelPath[]> {
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

/** After the last record: deletes partial results whose result is stored whole. A failure only costs space. */
async function deleteObsolete(
  { tidy, log }: FinishContext,
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
  { context, window, asked }: FinishParts,
  run: RunEnd & { readonly causes: readonly Cause[]; readonly noOutput: string | undefined },
  verdict: Verdict,
  left: readonly LeftFile[],
): Promise<boolean> {
  await asked.known();
  const { end, outOfMemory } = run;
  const causes = verdict.kind === 'failed' ? run.causes : [];
  try {
    const taskEnd = {
      code: end?.code,
      signal: end?.signal,
      status: verdict.status,
      reason: withCauses([whyAsked(context, run), verdict.reason], causes),
      why: causes.find(({ why }) => why !== undefined)?.why,
      outOfMemory,
      noOutput: verdict.kind === 'failed' ? run.noOutput : undefined,
    };
    await retryUntil(
      () => context.ledger.write(verdict.kind, { left, end: taskEnd }, context.signal),
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
