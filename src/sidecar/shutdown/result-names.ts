// The names of results at the end of the run: a result whose close may come from a dying process stays, or is put,
// beside the good ones; all others get their own names. Never puts a suspect result over a good one.
import { reasonOf } from '../../model/errors.ts';
import type { FileState } from '../../model/file/file-state.ts';
import { type TaskEnding, isSuspect } from '../../model/file/suspect.ts';
import type { LeftFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import type { Doubt } from '../queue/partials.ts';
import { type FinishParts, type RunEnd, trustHint } from './outcome.ts';

const UNVOUCHED: Doubt = { why: 'nothing says that the task closed it itself' };

interface Judged {
  readonly ending: TaskEnding;
  /** Results that came with the checkpoint, and that the task has not continued. */
  readonly unfinished: readonly RelPath[];
}

/**
 * From now on, results whose close may come from a dying process are pushed beside the good ones. Other staged objects
 * get their names: copies inside the store, which cost the drain nothing.
 */
export function judgeResults(
  parts: FinishParts,
  run: RunEnd,
  { ending, unfinished }: Judged,
): readonly FileState[] {
  const ofDeath = doubtResults(parts, run, ending);
  const isUnfinished = new Set(unfinished);
  parts.results.staged.ended((path, close) => isUnfinished.has(path) || isSuspect(close, ending));
  return ofDeath;
}

/** Call it after the drain. Resolves to the results that did not get their names. */
export async function nameResults(
  parts: FinishParts,
  ofDeath: readonly FileState[],
): Promise<readonly LeftFile[]> {
  const { staged } = parts.results;
  await staged.settled(parts.window.files);
  // The last record must know how the promotions under way ended.
  staged.close();
  await staged.idle(parts.window.record);
  const unnamed = namedLater(parts);
  await moveSuspects(parts, ofDeath);
  tellStaged(parts);
  return unnamed;
}

/** Only the first one has a hint. */
function doubtResults(
  { files, suspects }: FinishParts,
  run: RunEnd,
  ending: TaskEnding,
): readonly FileState[] {
  const ofDeath: FileState[] = [];
  for (const fileState of files.fileStates('result'))
    if (isSuspect(fileState.lastClose, ending)) ofDeath.push(fileState);
  const hints = [
    "call 'capture flush' after each step: it vouches for what is closed by then",
    trustHint(run),
  ];
  const hint = hints.filter((one) => one !== undefined).join('; ');
  for (const [at, { path }] of ofDeath.entries())
    suspects.set(path, at === 0 ? { ...UNVOUCHED, hint } : UNVOUCHED);
  return ofDeath;
}

/** A result that was published before the death was known is under the key of a whole one: it is moved. */
async function moveSuspects(
  { context, results, suspects, window }: FinishParts,
  ofDeath: readonly FileState[],
): Promise<void> {
  for (const { path, lastClose } of ofDeath) {
    if (lastClose === undefined || !results.publishedSince(path, lastClose.atMs)) continue;
    try {
      await results.moveAside(path, suspects.get(path) ?? UNVOUCHED, window.record);
    } catch (error) {
      context.log.warn(
        `${showPath(path)} may be half-written and could not be moved aside: ${reasonOf(error)}`,
        { event: 'half-written', path },
      );
    }
  }
}

/**
 * Results that the end has proven and that have no name yet: the last record says so, and the next attempt names them.
 */
function namedLater({ context, results: { staged } }: FinishParts): readonly LeftFile[] {
  return staged.due().map(({ file }) => {
    context.ledger.clearPartial(file);
    const why = staged.whyUnnamed(file.path) ?? 'no time was left to give it its name';
    return { path: file.path, why: `it is stored only as ${file.key}: ${why}` };
  });
}

/** Results that stay staged may be half-written. Empty ones are not worth keeping. */
function tellStaged({ context, suspects, results }: FinishParts): void {
  const { log } = context;
  for (const [path, { file }] of results.staged.objects()) {
    const { why, hint } = suspects.get(path) ?? UNVOUCHED;
    const { key, size: bytes } = file;
    if (bytes > 0 && file.suspect === true)
      log.warn(`${showPath(path)} may be half-written, as ${why}: stored as ${key}`, {
        event: 'half-written',
        path,
        key,
        bytes,
        hint,
      });
  }
}
