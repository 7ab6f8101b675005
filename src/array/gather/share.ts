// What one index gives to a gathering: its results as its newest record tells them, never what names in the store look
// like; and what stays behind.
import { unionOf } from '../../model/checkpoint/history.ts';
import type { StoredFile } from '../../model/format/records.ts';
import type { Source } from '../../restore/source.ts';
import { newestRecord } from '../details.ts';
import type { Place } from '../place.ts';
import type { IndexRow } from '../survey.ts';
import type { Layout } from './layout.ts';

export interface Share {
  readonly index: string;
  /** `path` is where each is put. */
  readonly files: readonly StoredSource[];
  /** Results that deaths have cut off, and that are not among the files. */
  readonly partials: number;
  /** Older objects of results that came again with other content. */
  readonly older: number;
  /** Why not all that is stored of it is known; empty if it is. */
  readonly problems: readonly string[];
}

/** All of it is known: it comes from a record. */
export type StoredSource = Source & Pick<StoredFile, 'md5' | 'size' | 'mtimeNs'>;

export interface Choice {
  /** Of a path in the work directory of its task. */
  readonly wants: (path: string) => boolean;
  readonly layout: Layout;
  readonly withPartials: boolean;
}

export async function shareOf(
  place: Place,
  row: IndexRow,
  { wants, layout, withPartials }: Choice,
  signal: AbortSignal,
): Promise<Share> {
  const { index } = row;
  const { newest, problems } = await newestRecord(place, row, signal);
  if (newest === undefined) {
    const none = row.telling === undefined ? [] : ['none of its records can be read'];
    return { index, files: [], partials: 0, older: 0, problems: [...problems, ...none] };
  }
  const { results, partials, kept } = unionOf([newest], newest.record.runId);
  const sourceOf = (file: StoredFile, suffix = ''): StoredSource => ({
    ...file,
    path: `${layout.place({ index, task: place.taskName, path: file.path })}${suffix}`,
  });
  const files: StoredSource[] = [];
  for (const file of results.values()) if (wants(file.path)) files.push(sourceOf(file));
  const cutOff = partials.filter(({ path }) => wants(path));
  if (withPartials) files.push(...cutOff.map((file) => sourceOf(file, endingOf(file))));
  let older = 0;
  for (const [path, count] of kept) if (wants(path)) older += count;
  return { index, files, partials: withPartials ? 0 : cutOff.length, older, problems };
}

/** `.partial-2`, as in its key. */
function endingOf({ key, attempt }: StoredFile): string {
  const [ending = `.partial-${attempt}`] = /\.partial-\d+(?:\.~\d+~)?(?=(?:\.zst)?$)/.exec(key) ?? [];
  return ending;
}
