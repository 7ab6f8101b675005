// What the end of the run tells the user: which declared files are not stored and why, and the last line.
import { isSettled } from '../../core/decide.ts';
import type { Track } from '../../core/track.ts';
import { errnoOf } from '../../core/errors.ts';
import { showPath, type RelPath } from '../../core/path.ts';
import type { LeftFile } from '../../core/records.ts';
import { formatBytes, plural } from '../../core/units.ts';
import { lstatBeneath } from '../../native/beneath.ts';
import type { Root } from '../context.ts';
import type { Verdict } from '../../core/verdict.ts';
import type { FinishParts } from './finish.ts';
import { neverCame } from './never-came.ts';

/** Names in the last line before it says how many more there are. */
const NAMED_LEFT = 10;

/** Declared files that were closed, are still there, and are not stored. */
export function leftFiles(
  { files, context }: FinishParts,
  postponed: readonly RelPath[],
): readonly LeftFile[] {
  const left = new Map<string, string>();
  for (const role of ['result', 'checkpoint'] as const) {
    for (const track of files.tracks(role)) {
      const why = whyLeft(track);
      if (why !== undefined && mayBeThere(context.root, track.path)) left.set(track.path, why);
    }
  }
  for (const path of postponed) if (!left.has(path)) left.set(path, 'its generation could not be committed');
  return [...left].map(([path, why]) => ({ path, why }));
}

/** What the task removed, or put something else in the place of, is withdrawn; what we cannot see is not. */
function mayBeThere(root: Root, path: RelPath): boolean {
  try {
    const stat = lstatBeneath(root, path);
    return stat !== undefined && !stat.isDirectory();
  } catch (error) {
    return errnoOf(error) !== 'ENOTDIR' && errnoOf(error) !== 'ELOOP';
  }
}

/** `otherwise`: why it is not stored although nothing stands in its way. */
export function whyLeft(track: Track, otherwise = 'no time was left'): string | undefined {
  if (track.left !== undefined) return track.left;
  if (track.blocked) return 'another process still has it open for writing';
  if (track.tornTries > 0) return 'it changed each time it was read';
  return isSettled(track) ? undefined : otherwise;
}

/** What was stored, what was left and why, which pattern never matched a file; `reason`: why it ends so. */
export function lastLine(
  parts: FinishParts,
  told: {
    readonly left: readonly LeftFile[];
    readonly recorded: boolean;
    readonly verdict: Verdict;
  },
): string {
  const { left, recorded, verdict } = told;
  const { context, results, checkpoints, generations, reclaims } = parts;
  const { stored } = results;
  const said = [`stored ${plural(stored.files, 'result')} (${formatBytes(stored.bytes)})`];
  if (generations.committed > 0) {
    said.push(`${plural(generations.committed, 'checkpoint')} (${formatBytes(checkpoints.bytesStored)})`);
  }
  const { bytesStored } = parts.companions;
  if (bytesStored > 0) said.push(`companions (${formatBytes(bytesStored)})`);
  if (reclaims.reclaimed > 0) said.push(`${plural(reclaims.reclaimed, 'local file')} reclaimed`);
  if (results.olderKept > 0) said.push(`${plural(results.olderKept, 'older result')} kept as .~n~`);
  if (left.length > 0) {
    const named = left
      .slice(0, NAMED_LEFT)
      .map(({ path, why }) => `${path === '' ? 'the work directory' : showPath(path)} (${why})`);
    const more = left.length > NAMED_LEFT ? `, and ${left.length - NAMED_LEFT} more` : '';
    said.push(`NOT stored: ${named.join(', ')}${more}`);
  }
  // Of names that did not come to a task that ended well there is a warning.
  const never = neverCame(parts).filter(
    ({ pattern, isName }) =>
      !left.some(({ path }) => path === pattern) && !(isName && verdict.kind === 'done'),
  );
  if (never.length > 0) said.push(`never matched a file: ${never.map(({ pattern }) => pattern).join(', ')}`);
  said.push(...runAgain(verdict));
  if (!recorded) said.push('the last record is NOT written');
  return `${said.join('; ')} -> ${context.store.url}`;
}

/** What the exit status says to whoever starts the attempts. */
function runAgain({ kind, status, reason }: Verdict): readonly string[] {
  if (kind === 'preempted') return [`to be run again, exit ${status}: ${reason ?? 'it was stopped'}`];
  return kind === 'failed' && reason !== undefined ? [`not to be run again: ${reason}`] : [];
}
