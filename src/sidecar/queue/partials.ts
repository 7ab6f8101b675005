// Partial results: a result that a dying process may have left half-written is stored as
// `<path>.<index>.partial-<attempt>`, beside the good ones and never over them, and stays in the work directory. Most
// are staged objects that never got their name (staged.ts). This file moves those that had their name already, and
// finds those that no record names because the attempt was killed after it had sent them.
import pLimit from 'p-limit';
import type { History } from '../../model/checkpoint/history.ts';
import { fixedPart } from '../../model/file/manifest.ts';
import {
  escapePath,
  parsePartial,
  partialKey,
  partialOfKey,
  partialPrefix,
  pathOfResult,
  isCompressedKey,
} from '../../model/format/keys.ts';
import { isLast, type StoredFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import type { Store } from '../../store/contract/store.ts';
import type { Needs } from '../run/context.ts';
import { factsOfMeta, type UnrecordedSearch } from './overwritten.ts';

type PartialsContext = Needs<'scope' | 'store' | 'log' | 'attempt' | 'ledger' | 'fence'>;

/** Why a result may be half-written, and what to do about it, for the user. */
export interface Doubt {
  readonly why: string;
  readonly hint?: string | undefined;
}

interface Move {
  readonly path: RelPath;
  readonly doubt: Doubt;
  /** The number of a key that this sidecar has never used. */
  readonly takeNumber: () => number;
}

/** Moves a result to its partial key, if it was published before the death was known. */
export async function moveToPartial(
  context: PartialsContext,
  { path, doubt, takeNumber }: Move,
  signal: AbortSignal,
): Promise<void> {
  const { ledger, store, scope, attempt, fence, log } = context;
  const file = ledger.results.get(path);
  if (file === undefined || file.attempt !== attempt) return;
  const isFree = async (n: number): Promise<boolean> => {
    const heads = [true, false].map((compressed) =>
      store.head(partialKey(path, scope, { attempt, n }, compressed), signal),
    );
    const there = await Promise.all(heads);
    return there.every((head) => head === undefined || head.meta['push'] === file.push);
  };
  let n = takeNumber();
  // Attempts of other tasks have the same numbers.
  while (!(await isFree(n))) n = takeNumber();
  const key = partialKey(path, scope, { attempt, n }, file.compressed);
  await store.copy(file.key, key, signal);
  // As late as possible: the machine may go to sleep at any moment.
  await fence.passAnew(signal);
  await store.delete([file.key], signal);
  ledger.notePartial({ ...file, key, suspect: true });
  const { why, hint } = doubt;
  const fields = { event: 'half-written', path, key, bytes: file.size, hint } as const;
  log.warn(`${showPath(path)} may be half-written, as ${why}: moved to ${key}`, fields);
}

/** A listing costs a round trip. */
const LISTINGS_AT_ONCE = 8;
/** If there are very many results, only the first ones are looked at. */
const MOST_PATHS = 1000;
/** The limit for each path: an attempt leaves a handful. */
const MOST_OF_PATH = 1000;
/**
 * If there are very many objects of all indices below a prefix, only the first ones are looked at: a hundred requests.
 */
const MOST_KEYS = 100_000;

/** `md5` is '' if nobody knows it. */
export async function unrecordedPartials(
  { store, scope, history, signal }: UnrecordedSearch,
  paths: Iterable<RelPath>,
): Promise<readonly StoredFile[]> {
  const isSilent = silentOf(history);
  if (isSilent === undefined) return [];
  const find = async (path: RelPath): Promise<readonly StoredFile[]> => {
    const prefix = partialPrefix(path, scope);
    const found: StoredFile[] = [];
    for await (const { key } of store.list(prefix, signal)) {
      const attempt = parsePartial(key.slice(prefix.length));
      if (attempt !== undefined) found.push(...(await isSilent(store, { key, path, attempt }, signal)));
      if (found.length === MOST_OF_PATH) return found;
    }
    return found;
  };
  const some = new Set<RelPath>();
  for (const path of paths) if (some.add(path).size === MOST_PATHS) break;
  return (await pLimit(LISTINGS_AT_ONCE).map(some, find)).flat();
}

export interface FoundBelow {
  readonly partials: readonly StoredFile[];
  /** Results of this index that have an object under their name, whoever recorded it. */
  readonly results: readonly RelPath[];
}

/** The same for all paths that only `patterns` declare: one listing of everything below them, for all indices. */
export async function unrecordedPartialsBelow(
  { store, scope, history, signal }: UnrecordedSearch,
  patterns: readonly string[],
  wants: (path: RelPath) => boolean,
): Promise<FoundBelow> {
  const isSilent = silentOf(history);
  const [partials, results]: [StoredFile[], RelPath[]] = [[], []];
  if (isSilent === undefined) return { partials, results };
  let keys = 0;
  for (const prefix of outermost(patterns.map((pattern) => escapePath(fixedPart(pattern)))))
    for await (const { key } of store.list(prefix, signal)) {
      if ((keys += 1) > MOST_KEYS) return { partials, results };
      const partial = partialOfKey(key, scope);
      const path = partial?.path ?? pathOfResult(key, scope);
      if (path === undefined || !wants(path)) continue;
      if (partial === undefined) results.push(path);
      else partials.push(...(await isSilent(store, { key, ...partial }, signal)));
    }
  return { partials, results };
}

interface Named {
  readonly key: string;
  readonly path: RelPath;
  readonly attempt: number;
}

type Unrecorded = (store: Store, named: Named, signal: AbortSignal) => Promise<readonly StoredFile[]>;

/**
 * Finds objects of attempts that never recorded how they ended, which no record names. Undefined if every attempt has
 * recorded its end.
 */
function silentOf(history: History): Unrecorded | undefined {
  const silent = history.attempts.filter(({ kind, sameRun }) => sameRun && !isLast(kind));
  if (silent.length === 0) return undefined;
  const runs = new Map(silent.map(({ attempt, runToken }) => [attempt, runToken]));
  const recorded = new Set(history.partials.map(({ key }) => key));
  return async (store, { key, path, attempt }, signal) => {
    const run = runs.get(attempt);
    if (run === undefined || recorded.has(key)) return [];
    const head = await store.head(key, signal);
    // Attempts of other tasks have the same numbers.
    if (head?.meta['run'] !== run) return [];
    const compressed = isCompressedKey(key);
    return [{ ...UNKNOWN, ...factsOfMeta(head.meta), path, key, attempt, compressed }];
  };
}

/** Without prefixes that lie below another one. */
function outermost(prefixes: readonly string[]): readonly string[] {
  const isBelow = (prefix: string, other: string): boolean => prefix !== other && prefix.startsWith(other);
  return [...new Set(prefixes)].filter((prefix) => !prefixes.some((other) => isBelow(prefix, other)));
}

/** For fields that the metadata do not have. */
const UNKNOWN = {
  kind: 'file',
  push: '',
  md5: '',
  size: 0,
  mtimeNs: '0',
  mode: 0o600,
  suspect: true,
} as const;
