// After the last record of an index that is done: deletes what killed attempts had sent and no record names.
import pLimit from 'p-limit';
import { generationKeys } from '../../model/checkpoint/retention.ts';
import { reasonOf } from '../../model/errors.ts';
import { mayCompress, momentPrefix, parseMoment, resultKey } from '../../model/format/keys.ts';
import type { Generation } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { listRecords } from '../../records/list.ts';
import { readDropped, readNewest } from '../../records/read.ts';
import { mayBeOverwritten } from '../queue/overwritten.ts';
import type { Needs } from '../run/context.ts';

type OrphansContext = Needs<
  'scope' | 'manifest' | 'store' | 'log' | 'attempt' | 'runToken' | 'resumed' | 'history' | 'ledger' | 'tidy'
>;

/** A listing costs a round trip. */
const LISTINGS_AT_ONCE = 8;
/** If a task gives each checkpoint a name of its own, only the first names are looked at. */
const MOST_PATHS = 1000;
/** The limit for each path. */
const MOST_OF_PATH = 1000;

/**
 * Deletes orphaned objects: those that earlier attempts of this index sent and never recorded, or dropped and did not
 * delete, because they were killed in between. Never deletes objects that the newest record of any attempt names, nor
 * any of a later attempt. `seen`: declared checkpoints and companions of this run. Never throws: an object that stays
 * only costs space.
 */
export async function deleteOrphanedObjects(
  context: OrphansContext,
  seen: Iterable<RelPath>,
  signal: AbortSignal,
): Promise<void> {
  const { attempt, resumed, history, log, tidy } = context;
  if (attempt === 1 && !resumed) return;
  try {
    const recorded = await readAll(context, signal);
    if (recorded === undefined) return;
    const found = await findOrphans(context, recorded, seen, signal);
    const inOtherForm = resumed || mayBeOverwritten(history) ? otherForms(context) : [];
    const orphans = await madeBy(context, recorded.runs, [...found, ...inOtherForm], signal);
    if (orphans.length === 0 || !(await tidy.delete(orphans, signal))) return;
    log.info(`deleted ${plural(orphans.length, 'object')} that killed attempts had sent and never recorded`);
  } catch (error) {
    if (!signal.aborted) log.warn(`what killed attempts have left in the store stays: ${reasonOf(error)}`);
  }
}

interface Recorded {
  readonly generations: readonly Generation[];
  /** Dropped generations, as far as older records still name them. */
  readonly dropped: readonly Generation[];
  /** The `run` that objects carry, for each attempt of this task and index except later ones. */
  readonly runs: ReadonlySet<string>;
}

/** The records of all attempts, and their run ids. Undefined if a record cannot be read: it may name anything. */
async function readAll(
  { store, scope, ledger, attempt, runToken }: OrphansContext,
  signal: AbortSignal,
): Promise<Recorded | undefined> {
  const listing = await listRecords(store, scope, signal);
  const { records, problems } = await readNewest(store, listing, { signal });
  if (problems.length > 0) return undefined;
  const generations = [...records.flatMap(({ record }) => record.generations), ...ledger.generations];
  const dropped = await readDropped(store, listing, { before: attempt, signal });
  const before = records.filter(({ record }) => record.attempt <= attempt);
  return { generations, dropped, runs: new Set([...before.map(({ record }) => record.runToken), runToken]) };
}

/** A dead attempt may have stored a result uncompressed that is stored compressed now, or the other way round. */
function otherForms({ ledger, scope }: OrphansContext): readonly string[] {
  const keys: string[] = [];
  for (const { path, compressed } of ledger.results.values())
    if (mayCompress(path)) keys.push(resultKey(path, scope, !compressed));
  return keys;
}

/** The key alone does not say: `a.b` of the task `c` and `a` of `b.c` have the same keys. */
async function madeBy(
  { store }: OrphansContext,
  runs: ReadonlySet<string>,
  keys: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const isOurs = await pLimit(LISTINGS_AT_ONCE).map(keys, async (key) =>
    runs.has((await store.head(key, signal))?.meta['run'] ?? ''),
  );
  return keys.filter((_, at) => isOurs[at]);
}

async function findOrphans(
  { store, scope, manifest, attempt, resumed }: OrphansContext,
  { generations, dropped }: Pick<Recorded, 'generations' | 'dropped'>,
  seen: Iterable<RelPath>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const named = new Set(generations.flatMap(generationKeys));
  const recorded = [...generations, ...dropped].flatMap(({ members, companions }) => [
    ...members,
    ...companions,
  ]);
  const paths = [
    ...manifest.exact.checkpoints,
    ...manifest.exact.companions,
    ...recorded.map(({ path }) => path),
    ...seen,
  ];
  // This attempt itself has deleted what it sent and did not name, except what a dead sidecar of it sent.
  const newest = resumed ? attempt : attempt - 1;
  const find = async (path: RelPath): Promise<readonly string[]> => {
    const roles = manifest.rolesOf(path);
    const prefix = momentPrefix(path, scope);
    const found: string[] = [];
    // A result that was open may have been captured as a companion.
    const hasSegments = roles.companion || roles.result;
    if (!roles.checkpoint && !hasSegments) return found;
    for await (const { key } of store.list(prefix, signal)) {
      const at = parseMoment(key.slice(prefix.length));
      if (at === undefined || at.attempt > newest || named.has(key)) continue;
      if (at.isSegment ? hasSegments : roles.checkpoint) found.push(key);
      // The next attempt finds the others.
      if (found.length === MOST_OF_PATH) return found;
    }
    return found;
  };
  const some = [...new Set(paths)].slice(0, MOST_PATHS);
  return (await pLimit(LISTINGS_AT_ONCE).map(some, find)).flat();
}
