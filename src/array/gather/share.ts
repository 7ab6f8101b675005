// What one index contributes to a gathering: the results in its newest record, and what is missing. Names in the store
// are never interpreted.
import { unionOf, type WholeRecord } from '../../model/checkpoint/history.ts';
import { ENDINGS } from '../../model/format/keys.ts';
import type { StoredFile } from '../../model/format/records.ts';
import { showPath } from '../../model/path.ts';
import type { Source } from '../../restore/source.ts';
import { detailsOf, newestRecord, partialsThere } from '../details.ts';
import type { StoredArray } from '../stored-array.ts';
import type { IndexRow } from '../survey.ts';
import type { Layout } from './layout.ts';
import type { Patterns } from './patterns.ts';

export interface Share {
  readonly index: string;
  /** `path` is the destination of each file. */
  readonly files: readonly StoredSource[];
  /** Number of results that were cut off when their attempt died, and that are not among the files. */
  readonly partials: number;
  /** Number of older objects of results that were stored again with other content, or whose name became a directory. */
  readonly older: number;
  /** Why something is missing: unreadable records, and files that are not stored. */
  readonly problems: readonly string[];
}

/** All fields are known, because they come from a record. */
export type StoredSource = Source & Pick<StoredFile, 'md5' | 'size' | 'mtimeNs' | 'secret'>;

export interface Choice {
  /** They match paths in the task's work directory. */
  readonly patterns: Patterns;
  readonly layout: Layout;
  readonly withPartials: boolean;
}

export async function shareOf(
  array: StoredArray,
  row: IndexRow,
  { patterns, layout, withPartials }: Choice,
  signal: AbortSignal,
): Promise<Share> {
  const { index } = row;
  const { newest, problems } = await newestRecord(array, row, signal);
  if (newest === undefined) {
    const none = row.telling === undefined ? [] : ['none of its records can be read'];
    return { index, files: [], partials: 0, older: 0, problems: [...problems, ...none] };
  }
  const wants = (path: string): boolean => patterns.has(path);
  const lacks = newest.record.left.filter(({ path }) => wants(path));
  const { results, replaced, kept } = unionOf([newest], newest.record.runId);
  const partials = await partialsOf(array, row, newest, signal);
  const sourceOf = (file: StoredFile, suffix = ''): StoredSource => ({
    ...file,
    path: `${layout.place({ index, task: array.taskName, path: file.path })}${suffix}`,
  });
  const files: StoredSource[] = [];
  for (const file of results.values()) if (wants(file.path)) files.push(sourceOf(file));
  const staged = partials.filter(({ path }) => wants(path));
  if (withPartials) files.push(...staged.map((file) => sourceOf(file, endingOf(file))));
  let older = replaced.filter(({ path }) => wants(path)).length;
  for (const [path, count] of kept) if (wants(path)) older += count;
  const lines = lacks.map(({ path, why }) => `${showPath(path)} is not stored whole: ${why}`);
  return {
    index,
    files,
    partials: withPartials ? 0 : staged.length,
    older,
    problems: [...problems, ...lines],
  };
}

/**
 * Each attempt records only the partial results of its own death, so those of earlier attempts cost one request each.
 * If an index is done, complete results have replaced all of them.
 */
async function partialsOf(
  array: StoredArray,
  row: IndexRow,
  newest: WholeRecord,
  signal: AbortSignal,
): Promise<readonly StoredFile[]> {
  if (newest.record.kind === 'done') return newest.record.partials;
  const { attempts: all } = await detailsOf(array, row, signal);
  return partialsThere(array, unionOf(all, newest.record.runId).partials, signal);
}

/** `.partial-2`, as in its key. */
function endingOf({ key, attempt }: StoredFile): string {
  const [ending = `.partial-${attempt}`] =
    new RegExp(String.raw`\.partial-\d+(?:\.~\d+~)?(?=${ENDINGS}$)`).exec(key) ?? [];
  return ending;
}
