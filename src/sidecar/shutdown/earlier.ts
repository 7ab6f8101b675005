// When the index is done: deals with all partial results of earlier attempts. Those that are whole get their good
// name, those of results that are missing for good are named to the user, and those of results stored whole since are
// deleted.
import type { Log } from '../../log/log.ts';
import { leftOf, namesOf, stillLacking } from '../../model/checkpoint/lacking.ts';
import { reasonOf } from '../../model/errors.ts';
import { resultKey } from '../../model/format/keys.ts';
import type { Lacking, LeftFile, StoredFile } from '../../model/format/records.ts';
import { sortPartials } from '../../model/outcome/partials.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { unrecordedPartials, unrecordedPartialsBelow } from '../queue/partials.ts';
import type { Needs } from '../run/context.ts';
import type { FinishParts } from './parts.ts';

/** What it takes of the run. */
type Uses = Needs<
  'scope' | 'manifest' | 'store' | 'log' | 'attempt' | 'history' | 'ledger' | 'fence' | 'lacking'
>;

export interface Earlier {
  /** What results lack, for the last record. The run itself has stored everything that it closed. */
  readonly left: readonly LeftFile[];
  /** Keys that nobody needs once the last record is written. */
  readonly obsolete: readonly string[];
}

/** `unfinished`: results that came with the checkpoint, and that the task has not continued. */
export async function resolveEarlier(
  parts: FinishParts,
  unfinished: readonly RelPath[],
  signal: AbortSignal,
): Promise<Earlier> {
  const { context, files } = parts;
  const { ledger, history, log } = context;
  const lacking = stillLacking(context.lacking, (path) => ledger.results.get(path)?.attempt);
  tellLacking(log, lacking);
  if (unfinished.length > 0) {
    log.warn(
      `the task did not go on writing these results, which were open at its checkpoint: ${unfinished.map(showPath).join(', ')}`,
      {
        hint: 'declare such parts with --companions as well: then they are results as far as they were written',
      },
    );
  }
  const isLacking = new Set(lacking.map(({ path }) => path));
  const { obsolete, whole, unproven } = sortPartials({
    partials: [...history.partials, ...(await unrecorded(parts, signal))].toSorted(
      (a, b) => a.attempt - b.attempt,
    ),
    resultOf: (path) => ledger.results.get(path),
    isWrittenNow: (path) => !parts.suspects.has(path) && files.get(path, 'result')?.durable !== undefined,
    isLacking: (path) => isLacking.has(path),
    generations: ledger.generations,
  });
  const unnamed: StoredFile[] = [];
  for (const partial of whole) if (!(await promote(context, partial, signal))) unnamed.push(partial);
  const kept = [...unproven, ...unnamed];
  if (kept.length > 0) warnOfKept(context, kept);
  const left = [...kept.map(leftAs), ...unfinished.map(leftUnfinished), ...lacking.map(leftOf)];
  return {
    left: [...new Map(left.map((one) => [one.path, one])).values()],
    obsolete: [...obsolete, ...whole.filter((partial) => !unnamed.includes(partial))].map(({ key }) => key),
  };
}

/** If this fails, they stay where they are. */
async function unrecorded(
  { context, files }: FinishParts,
  signal: AbortSignal,
): Promise<readonly StoredFile[]> {
  const { store, scope, history, manifest, ledger, log, settings } = context;
  const search = { store, scope, history, signal };
  const globs = settings.manifest.results.filter((pattern) => !manifest.exact.results.includes(pattern));
  function* paths(): Generator<RelPath> {
    yield* manifest.exact.results;
    yield* files.paths('result');
    yield* ledger.results.keys();
  }
  try {
    const found = [
      ...(await unrecordedPartials(search, paths())),
      ...(await unrecordedPartialsBelow(search, globs, (path) => manifest.rolesOf(path).result)),
    ];
    return [...new Map(found.map((one) => [one.key, one])).values()];
  } catch (error) {
    log.debug(`nobody knows what deaths have left and no record names: ${reasonOf(error)}`);
    return [];
  }
}

function tellLacking(log: Log, lacking: readonly Lacking[]): void {
  const nowhere = lacking.filter(({ key }) => key === undefined);
  const partial = lacking.filter(({ key }) => key !== undefined);
  if (nowhere.length > 0)
    log.warn(`what killed attempts had written to these results is stored nowhere: ${namesOf(nowhere)}`, {
      hint: 'run it once more with --no-restore, and declare append-only files that stay open with --companions',
    });
  if (partial.length > 0)
    log.warn(
      `what killed attempts had written to these results is stored only as a death left it: ${namesOf(partial)}`,
      {
        hint: 'put it together with what a later attempt has stored of each, or run it once more with --no-restore',
      },
    );
}

/** False if it failed: then the partial result counts as one that may not be whole. */
async function promote(context: Uses, partial: StoredFile, signal: AbortSignal): Promise<boolean> {
  const { store, scope, fence, ledger, attempt, log } = context;
  const key = resultKey(partial.path, scope, partial.compressed);
  try {
    await fence.passAnew(signal);
    if ((await store.head(key, signal)) !== undefined) return false;
    await store.copy(partial.key, key, signal);
    ledger.noteResult({ ...partial, key, attempt, suspect: undefined });
    log.info(`${showPath(partial.path)} of attempt ${partial.attempt} is whole: stored as ${key}`);
    return true;
  } catch (error) {
    log.debug(`${partial.key} keeps its name: ${reasonOf(error)}`);
    return false;
  }
}

function warnOfKept({ log, scope }: Uses, kept: readonly StoredFile[]): void {
  const [first] = kept;
  const more = kept.length > 1 ? `, and ${kept.length - 1} more` : '';
  log.warn(
    `${plural(kept.length, 'result')} may be half-written, left by a killed attempt and not written again: ${first?.key}${more}`,
    {
      hint: `look whether it is whole, and then copy it under its own key: ${first?.key} to ${first && resultKey(first.path, scope, first.compressed)} (the last record lists them all)`,
    },
  );
}

function leftAs({ path, key, attempt }: StoredFile): LeftFile {
  return { path, why: `only what attempt ${attempt} left when it was killed is stored: ${key}` };
}

function leftUnfinished(path: RelPath): LeftFile {
  return {
    path,
    why: 'it was open at the checkpoint, and the task has not gone on with it after the resume',
  };
}
