// What the user reads at the end of the run: which declared files are not stored and why, which were declared and never
// written, and the last line.
import { errnoOf } from '../../model/errors.ts';
import type { ExitStatus } from '../../model/exit-status.ts';
import { leadsToUndeclared } from '../../model/file/behind-link.ts';
import { whyLeft } from '../../model/file/decide.ts';
import { IS_LINKED, LINKED_HINT } from '../../model/file/link-target.ts';
import type { EndFields, MessageFields } from '../../model/format/message-fields.ts';
import type { LeftFile } from '../../model/format/records.ts';
import { usedWords } from '../../model/format/resources.ts';
import { unmatched, type Verdict, verdictLine } from '../../model/outcome/verdict.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { lstatBeneath, whereabouts } from '../../native/beneath.ts';
import { inShortTurns } from '../../native/turns.ts';
import type { Needs } from '../run/context.ts';
import { type Cause, whyAsked, withCauses } from './causes.ts';
import { bringBackHint, deletedLine } from './bring-back.ts';
import type { FinishParts, RunEnd } from './outcome.ts';

/** The limit of names in the last line; for further ones it gives the number. */
const NAMED_LEFT = 10;

/** The last line, for the log. */
export interface LastLine {
  readonly level: 'info' | 'error';
  readonly text: string;
  readonly fields: MessageFields;
}

/** Declared files that exist and are not stored: those that were closed, and those that could not be looked at. */
export async function leftFiles(
  parts: FinishParts,
  postponed: readonly RelPath[],
): Promise<readonly LeftFile[]> {
  const { files, context } = parts;
  const left = new Map<string, string>();
  for (const role of ['result', 'checkpoint'] as const) {
    for await (const fileState of inShortTurns(files.fileStates(role))) {
      const why = whyLeft(fileState);
      if (why !== undefined && mayBeThere(context, fileState.path)) left.set(fileState.path, why);
    }
  }
  for (const { path, why } of files.tooMany.values()) left.set(path, why);
  for (const path of postponed) if (!left.has(path)) left.set(path, 'its generation could not be committed');
  return [...left].map(([path, why]) => ({ path, why }));
}

/**
 * False if the task removed this file, or replaced it by something else. True if its directory is gone or cannot be
 * read, or its file system is not mounted any more.
 */
function mayBeThere({ root, mounts }: Needs<'root' | 'mounts'>, path: RelPath): boolean {
  if (whereabouts(root) === 'removed' || mounts.haveChangedAbove(path)) return true;
  try {
    const stat = lstatBeneath(root, path);
    return stat !== undefined && !stat.isDirectory();
  } catch (error) {
    return errnoOf(error) !== 'ENOTDIR' && errnoOf(error) !== 'ELOOP';
  }
}

/** How the run ended, what was left and why, what was stored, which pattern matched no file. */
export async function lastLine(
  parts: FinishParts,
  end: {
    readonly left: readonly LeftFile[];
    readonly recorded: boolean;
    readonly verdict: Verdict;
    /** The run's exit status. */
    readonly status: ExitStatus;
    readonly run: Pick<RunEnd, 'end' | 'reason'>;
    readonly causes: readonly Cause[];
  },
): Promise<LastLine> {
  const { left, recorded, verdict, status, run } = end;
  const causes = verdict.kind === 'failed' ? end.causes : [];
  const { context, results, checkpoints, generations, reclaims, resources } = parts;
  const stored = await results.stored();
  const asked = whyAsked(context, run);
  const said = [
    ...[verdictLine(verdict, run.end, asked) ?? []].flat(),
    ...causes.map(({ text }) => text),
    ...notStored(left),
  ];
  if (!recorded) said.push('the last record is NOT written');
  said.push(`stored ${plural(stored.files, 'result')} (${formatBytes(stored.bytes)})`);
  if (generations.commits.count > 0) {
    // The bytes that a dead sidecar sent for them were not counted.
    const sent = context.resumed === 'replaced' ? '' : ` (${formatBytes(checkpoints.bytesStored)})`;
    said.push(`${plural(generations.commits.count, 'checkpoint')}${sent}`);
  }
  if (context.resumed !== 'replaced') said.push(...besideCheckpoints(parts.companions.bytesStored));
  const deleted = deletedLine(context, reclaims);
  if (deleted !== undefined) said.push(deleted);
  if (results.olderKept > 0) said.push(`${plural(results.olderKept, 'older result')} kept as .~n~`);
  const { task } = resources.resources;
  // What to request from the scheduler next time.
  if (task !== undefined) said.push(usedWords(task).join(', '));
  // After a task that ended well there is a warning instead.
  const never = neverNamed(parts, left).filter((one) => !(isExpected(one) && verdict.kind === 'done'));
  if (never.length > 0) said.push(`no file matched ${never.map(({ pattern }) => pattern).join(', ')}`);
  // A command to copy comes last.
  const hints = [
    ...causes.map(({ hint }) => hint),
    left.some(({ why }) => why.endsWith(IS_LINKED)) ? LINKED_HINT : [],
    bringBackHint(context, reclaims, verdict.kind === 'failed') ?? [],
  ].flat();
  return {
    level: verdict.kind === 'failed' || left.length > 0 || !recorded ? 'error' : 'info',
    text: `${said.join('; ')} -> ${context.store.url}`,
    fields: {
      event: 'end',
      kind: verdict.kind,
      status,
      reason: withCauses([asked, verdict.reason], causes),
      hint: hints.length === 0 ? undefined : hints.join('; '),
      results: stored.files,
      bytes: stored.bytes,
      checkpoints: generations.commits.count,
      left,
      recorded,
      peakMemoryBytes: task?.peakMemoryBytes,
      cpuS: task?.cpuS,
    } satisfies MessageFields & EndFields,
  };
}

function besideCheckpoints({
  declared,
  results,
}: FinishParts['companions']['bytesStored']): readonly string[] {
  return [
    ...(declared > 0 ? [`companions (${formatBytes(declared)})`] : []),
    ...(results > 0 ? [`results kept with checkpoints (${formatBytes(results)})`] : []),
  ];
}

function notStored(left: readonly LeftFile[]): readonly string[] {
  if (left.length === 0) return [];
  const named = left
    .slice(0, NAMED_LEFT)
    .map(({ path, why }) => `${path === '' ? 'the work directory' : showPath(path)} (${why})`);
  const more = left.length > NAMED_LEFT ? `, and ${left.length - NAMED_LEFT} more` : '';
  return [`NOT stored: ${named.join(', ')}${more}`];
}

type NeverParts = Pick<FinishParts, 'context' | 'files' | 'companions'>;

interface NeverCame {
  readonly pattern: string;
  readonly list: 'results' | 'checkpoints' | 'companions';
  /** The pattern has no wildcard: exactly this file is expected. */
  readonly isName: boolean;
}

/**
 * Patterns that no file ever matched, in this run or before it, by option and in the user's order. So the user learns
 * of a mistyped name when the task ends well, and not when its checkpoint is needed.
 */
function neverCame({ context, files, companions }: NeverParts): readonly NeverCame[] {
  const { settings, ledger, manifest } = context;
  const lacking = (list: NeverCame['list'], paths: Iterable<RelPath>): readonly NeverCame[] =>
    unmatched(settings.manifest[list], paths).map((pattern) => ({
      pattern,
      list,
      isName: manifest.exact[list].includes(pattern),
    }));
  function* results(): Generator<RelPath> {
    yield* files.paths('result');
    yield* ledger.results.keys();
  }
  function* checkpoints(): Generator<RelPath> {
    yield* files.paths('checkpoint');
    for (const { members } of ledger.generations) for (const { path } of members) yield path;
  }
  return [
    ...lacking('results', results()),
    ...lacking('checkpoints', checkpoints()),
    ...(companions.seen === undefined ? [] : lacking('companions', companions.seen)),
  ];
}

/** Without the patterns of files that are left. */
function neverNamed(parts: NeverParts, left: readonly LeftFile[]): readonly NeverCame[] {
  const paths = left.map(({ path }) => path);
  return neverCame(parts).filter(
    ({ pattern }) => !paths.includes(pattern) && unmatched([pattern], paths).length > 0,
  );
}

/** Checkpoints and companions that only a glob declares may well be missing after a short run. */
function isExpected({ isName, list }: NeverCame): boolean {
  return isName || list === 'results';
}

/** After a task that ended well: one warning for all declared files that it should have written. */
export function warnOfNames(parts: NeverParts): void {
  const missing = neverCame(parts).filter(isExpected);
  if (missing.length === 0) return;
  const { log, settings } = parts.context;
  const named = missing.map(({ pattern, list }) => `${showPath(pattern)} (--${list})`);
  log.warn(`no file matched: ${named.join(', ')}`, {
    hint: `check the spelling; capture looks in ${showPath(settings.workdir)}`,
  });
}

/** Only a link to it is stored. Links to directories, at which a pattern leads on, are looked behind. */
export function warnOfLinks(
  { context, watcher }: Pick<FinishParts, 'context' | 'watcher'>,
  links: readonly RelPath[],
): void {
  const { manifest, log } = context;
  const named: string[] = [];
  for (const path of links) {
    const real = watcher.links.targetOf(path);
    if (real === undefined || !leadsToUndeclared(manifest, path, real)) continue;
    named.push(`${showPath(path)} (to ${showPath(real)})`);
    if (named.length === NAMED_LEFT) break;
  }
  if (named.length === 0) return;
  log.warn(`only the link is stored, and not what it leads to: ${named.join(', ')}`, {
    hint: 'declare that, too, or let the task write the file under the declared name',
  });
}
