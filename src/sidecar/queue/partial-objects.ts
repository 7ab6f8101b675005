// What deaths have left of results, and no record names: the attempt was killed after it had sent it. A listing for each
// path that is asked for, and none where every earlier attempt has written its last record.
import pLimit from 'p-limit';
import type { History } from '../../model/checkpoint/history.ts';
import { parsePartial, partialPrefix, type KeyScope } from '../../model/format/keys.ts';
import { isLast, type StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import type { Store } from '../../store/contract/store.ts';
import { factsOfMeta } from './overwritten.ts';

/** A listing costs a round trip. */
const LISTINGS_AT_ONCE = 8;
/** Of very many results the first so many are looked at. */
const MOST_PATHS = 1000;

export interface PartialSearch {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly history: History;
  readonly signal: AbortSignal;
}

/** In the order of attempts. `md5` is '' where nobody knows it. */
export async function unrecordedPartials(
  { store, scope, history, signal }: PartialSearch,
  paths: Iterable<RelPath>,
): Promise<readonly StoredFile[]> {
  const silent = history.attempts.filter(({ kind, sameRun }) => sameRun && !isLast(kind));
  if (silent.length === 0) return [];
  const runs = new Map(silent.map(({ attempt, runToken }) => [attempt, runToken]));
  const recorded = new Set(history.partials.map(({ key }) => key));
  const find = async (path: RelPath): Promise<readonly StoredFile[]> => {
    const prefix = partialPrefix(path, scope);
    const found: StoredFile[] = [];
    for await (const { key } of store.list(prefix, signal)) {
      const attempt = parsePartial(key.slice(prefix.length));
      const run = attempt === undefined ? undefined : runs.get(attempt);
      if (attempt === undefined || run === undefined || recorded.has(key)) continue;
      const head = await store.head(key, signal);
      // Attempts of other tasks have the same numbers.
      if (head?.meta['run'] !== run) continue;
      found.push({
        ...UNKNOWN,
        ...factsOfMeta(head.meta),
        path,
        key,
        attempt,
        compressed: key.endsWith('.zst'),
      });
    }
    return found;
  };
  const some = new Set<RelPath>();
  for (const path of paths) if (some.add(path).size === MOST_PATHS) break;
  const found = (await pLimit(LISTINGS_AT_ONCE).map(some, find)).flat();
  return found.toSorted((a, b) => a.attempt - b.attempt);
}

/** Where the metadata do not say. */
const UNKNOWN = {
  kind: 'file',
  push: '',
  md5: '',
  size: 0,
  mtimeNs: '0',
  mode: 0o600,
  suspect: true,
} as const;
