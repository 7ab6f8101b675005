// The names of results at the end of the run: what a death may have closed stays, or goes, beside the good ones, and all
// else gets its own name. Never puts a suspect result over a good one.
import { reasonOf } from '../../model/errors.ts';
import type { FileState } from '../../model/file/file-state.ts';
import { type Ending, isSuspect } from '../../model/file/suspect.ts';
import type { LeftFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import type { Doubt } from '../queue/partials.ts';
import { type FinishParts, type RunEnd, trustHint } from './outcome.ts';

const UNVOUCHED: Doubt = { why: 'nothing says that the task closed it itself' };

interface Judged {
  readonly ending: Ending;
  /** What came with the checkpoint, and the task has not gone on with. */
  readonly unfinished: readonly RelPath[];
}

/**
 * From now on results that a death may have closed are pushed beside the good ones, and what is staged gets its name
 * unless a death may have closed it: copies inside the store, which cost the drain nothing.
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

/** After the drain. Resolves to what has not got its name. */
export async function nameResults(
  parts: FinishParts,
  ofDeath: readonly FileState[],
): Promise<readonly LeftFile[]> {
  const { staged } = parts.results;
  await staged.settled(parts.window.files);
  // The last record must know how those ended that are under way.
  staged.close();
  await staged.idle(parts.window.record);
  const unnamed = namedLater(parts);
  await moveSuspects(parts, ofDeath);
  tellStaged(parts);
  return unnamed;
}

/** The first alone has a hint. */
function doubtResults({ files, suspects }: FinishParts, run: RunEnd, ending: Ending): readonly FileState[] {
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

/** A result that was published before the death was known stands under the key of a whole one: it is moved. */
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

/** What the end has cleared, and is not named: the last record says so, and the next attempt does it. */
function namedLater({ context, results: { staged } }: FinishParts): readonly LeftFile[] {
  return staged.due().map(({ file }) => {
    context.ledger.clearPartial(file);
    const why = staged.whyUnnamed(file.path) ?? 'no time was left to give it its name';
    return { path: file.path, why: `it is stored only as ${file.key}: ${why}` };
  });
}

/** What stays staged may be half-written. Of what is empty there is nothing to keep. */
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
