// After this attempt's own work: handles the partial results that earlier attempts of the index have left in the store.
// While a result that they closed is not stored whole, the index is not done.
import pLimit from 'p-limit';
import type { Log } from '../../log/log.ts';
import { lackingAsLeft, lackingNames, stillLacking } from '../../model/checkpoint/lacking.ts';
import { reasonOf } from '../../model/errors.ts';
import { resultKey } from '../../model/format/keys.ts';
import type { Lacking, LeftFile, StoredFile } from '../../model/format/records.ts';
import { isElder, oldestFirst, sortPartials } from '../../model/outcome/partials.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { beginsWith, mayBeOverwritten, unrecordedResult } from '../queue/overwritten.ts';
import { unrecordedPartials, unrecordedPartialsBelow } from '../queue/partials.ts';
import type { Needs } from '../run/context.ts';
import type { FinishParts } from './outcome.ts';

type EarlierContext = Needs<'scope' | 'manifest' | 'store' | 'log' | 'history' | 'ledger' | 'lacking'>;

/** A listing costs a round trip. */
const LISTINGS_AT_ONCE = 8;
/** If a task gives each checkpoint a name of its own, only the first names are looked at. */
const MOST_PATHS = 1000;

export interface Earlier {
  /** What results lack, for the last record. If it is not empty, the index is not done. */
  readonly left: readonly LeftFile[];
  /** A further attempt cannot change it: the task has ended well, and has not written these results again. */
  readonly isLasting: boolean;
  /** Keys that are not needed any more once the last record is written. */
  readonly obsolete: readonly string[];
}

/**
 * Handles all partial results of earlier attempts. Those that are whole get their good name. Those of results that are
 * missing for good are named to the user. Those of results that were stored whole since are obsolete. `unfinished`:
 * results that came with the checkpoint, and that the task has not continued.
 */
export async function resolveEarlier(
  parts: FinishParts,
  unfinished: readonly RelPath[],
  signal: AbortSignal,
): Promise<Earlier> {
  const { context, files } = parts;
  const { ledger, history, manifest } = context;
  // Nobody misses what is no longer declared, or cannot stand beside a newer result.
  const isMissed = ({ path }: { readonly path: RelPath }): boolean =>
    manifest.rolesOf(path).result && !ledger.clashes(path);
  const recorded = await stillStaged(context, history.partials, signal);
  const partials = [...recorded, ...(await noteUnrecorded(parts, signal))]
    .filter(({ path }) => !ledger.clashes(path))
    .toSorted(oldestFirst);
  const lacked = stillLacking(context.lacking, (path) => ledger.results.get(path)?.attempt);
  const there = new Set(partials.map(({ key }) => key));
  const isWhole = ({ key, whole }: Lacking): boolean => whole === true && key !== undefined && there.has(key);
  const proven = new Set(lacked.filter(isWhole).map(({ key }) => key));
  // If the object was moved or deleted, it has been dealt with.
  const lacking = lacked.filter(
    (one) => !isWhole(one) && (one.open || one.key === undefined || there.has(one.key)),
  );
  const isLacking = new Set(lacking.map(({ path }) => path));
  const { obsolete, whole, unproven } = sortPartials({
    partials,
    resultOf: (path) => ledger.results.get(path),
    isWrittenNow: (path) => !parts.suspects.has(path) && files.get(path, 'result')?.durable !== undefined,
    isLacking: (path) => isLacking.has(path),
    isProven: ({ key }) => proven.has(key),
    generations: ledger.generations,
  });
  const unnamed: StoredFile[] = [];
  for (const partial of whole) if (!(await promote(parts, partial, signal))) unnamed.push(partial);
  for (const partial of obsolete)
    if (isBeforeResume(context, partial) && !(await keepUnlessContained(parts, partial, signal)))
      unnamed.push(partial);
  // A result may lack the newest of several states.
  const others = partials.filter(
    ({ path, key, size }) => isLacking.has(path) && size > 0 && !lacking.some((one) => one.key === key),
  );
  const found = {
    kept: [...unproven, ...others].filter(isMissed).concat(unnamed),
    unfinished: unfinished.filter((path) => isMissed({ path })),
    lacking: lacking.filter(isMissed),
  };
  tell(context, found);
  return {
    left: leftIn(found),
    // Whole results that could not get their name now can get it then.
    isLasting: unnamed.length === 0,
    obsolete: [...obsolete, ...whole].filter((one) => !unnamed.includes(one)).map(({ key }) => key),
  };
}

/** Results that are not stored whole. */
interface Missing {
  readonly kept: readonly StoredFile[];
  readonly unfinished: readonly RelPath[];
  readonly lacking: readonly Lacking[];
}

function leftIn({ kept, unfinished, lacking }: Missing): readonly LeftFile[] {
  const left = [...lacking.map(lackingAsLeft), ...unfinished.map(leftUnfinished), ...kept.map(leftAs)];
  const whys = new Map<RelPath, readonly string[]>();
  for (const { path, why } of left) whys.set(path, [...(whys.get(path) ?? []), why]);
  return [...whys].map(([path, why]) => ({ path, why: why.join('; ') }));
}

function tell(context: EarlierContext, { kept, unfinished, lacking }: Missing): void {
  tellLacking(context.log, lacking);
  if (unfinished.length > 0) tellUnfinished(context.log, unfinished);
  if (kept.length > 0) tellKept(context, kept);
}

/**
 * Leaves out staged objects that got their name, or were deleted, before their attempt was killed and could record it.
 * One that got its name is noted as a result, unless newer content is.
 */
async function stillStaged(
  { store, scope, ledger }: EarlierContext,
  partials: readonly StoredFile[],
  signal: AbortSignal,
): Promise<readonly StoredFile[]> {
  const look = async (partial: StoredFile): Promise<boolean> => {
    if ((await store.head(partial.key, signal)) !== undefined) return true;
    const key = resultKey(partial.path, scope, partial.compressed);
    const known = ledger.results.get(partial.path);
    if (known !== undefined && !isElder(known, partial)) return false;
    const named = await store.head(key, signal);
    if (named?.meta['push'] === partial.push) ledger.noteFound({ ...partial, key, suspect: undefined });
    return false;
  };
  // An object that could not be looked up counts as existing, and is named.
  const isThere = await pLimit(LISTINGS_AT_ONCE).map(partials, (one) => look(one).catch(() => true));
  return partials.filter((_, at) => isThere[at]);
}

/**
 * What attempts left behind when they died before they could record it: results are added to the ledger, staged objects
 * are returned. If this fails, the objects stay where they are.
 */
async function noteUnrecorded(
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
    const below = await unrecordedPartialsBelow(search, globs, (path) => manifest.rolesOf(path).result);
    await noteResults(context, [...manifest.exact.results, ...below.results], signal);
    const found = [...(await unrecordedPartials(search, paths())), ...below.partials];
    return [...new Map(found.map((one) => [one.key, one])).values()];
  } catch (error) {
    log.debug(`cannot list what killed attempts have left: ${reasonOf(error)}`);
    return [];
  }
}

async function noteResults(
  { store, scope, history, ledger }: EarlierContext,
  paths: readonly RelPath[],
  signal: AbortSignal,
): Promise<void> {
  if (!mayBeOverwritten(history)) return;
  const unknown = [...new Set(paths)].filter((path) => !ledger.results.has(path)).slice(0, MOST_PATHS);
  const search = { store, scope, history, signal };
  const found = await pLimit(LISTINGS_AT_ONCE).map(unknown, (path) => unrecordedResult(search, path));
  for (const file of found) if (file !== undefined) ledger.noteFound(file);
}

function tellLacking(log: Log, lacking: readonly Lacking[]): void {
  const nowhere = lacking.filter(({ key }) => key === undefined);
  const partial = lacking.filter(({ key }) => key !== undefined);
  if (nowhere.length > 0)
    log.warn(
      `what killed attempts had written to these results is stored nowhere: ${lackingNames(nowhere)}`,
      {
        hint: 'run it once more with --no-restore, and declare files that the task appends to with --companions',
      },
    );
  if (partial.length > 0)
    log.warn(
      `what killed attempts had written to these results is stored only in a state that may be half-written: ${lackingNames(partial)}`,
      {
        hint: 'put it together with what a later attempt has stored of each, or run it once more with --no-restore',
      },
    );
}

/** False if it failed: then the partial result counts as one that may not be whole. */
async function promote(
  { context: { log }, results }: FinishParts,
  partial: StoredFile,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const key = await results.nameEarlier(partial, signal);
    log.info(`${showPath(partial.path)} of attempt ${partial.attempt} is whole: stored as ${key}`);
    return true;
  } catch (error) {
    log.debug(`${partial.key} keeps its name: ${reasonOf(error)}`);
    return false;
  }
}

/** True if a task that has resumed may have written only what follows these bytes. */
function isBeforeResume({ lacking }: EarlierContext, { path, attempt, size }: StoredFile): boolean {
  return size > 0 && lacking.some((one) => one.path === path && attempt <= one.attempt);
}

/** False if it is unknown whether the stored result contains these bytes, and they could not be kept beside it. */
async function keepUnlessContained(
  { context: { ledger, store, log }, results }: FinishParts,
  partial: StoredFile,
  signal: AbortSignal,
): Promise<boolean> {
  const result = ledger.results.get(partial.path);
  try {
    if (result === undefined || !(await beginsWith(store, result, partial, signal)))
      await results.keepEarlier(partial, signal);
    return true;
  } catch (error) {
    log.debug(`${partial.key} stays: ${reasonOf(error)}`);
    return false;
  }
}

function tellUnfinished(log: Log, unfinished: readonly RelPath[]): void {
  log.warn(
    `the task did not go on writing these results, which were open at its checkpoint: ${unfinished.map(showPath).join(', ')}`,
    {
      hint: 'declare such parts with --companions as well: then they are results as far as they were written; or run it once more with --no-restore',
    },
  );
}

function tellKept({ log, scope }: EarlierContext, kept: readonly StoredFile[]): void {
  const [first] = kept;
  const more = kept.length > 1 ? `, and ${kept.length - 1} more` : '';
  log.warn(
    `${plural(kept.length, 'result')} may be half-written, left by a killed attempt and not written again: ${first?.key}${more}`,
    {
      hint: `look whether it is whole, and then move it to its own key, ${first && resultKey(first.path, scope, first.compressed)}, or delete it (the last record lists them all). The index is done once it runs again without it`,
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
