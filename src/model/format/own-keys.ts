// Which keys in a record are trusted. capture downloads, renames and deletes what a record names, so a record may name
// only objects that its own task and index could have stored by then. Each kind of object has one form of key
// (keys.ts). Pure; records/claim and records/read apply it to everything that they read.
import { isInside, type RelPath } from '../path.ts';
import {
  bareKey,
  isCompressedKey,
  type KeyScope,
  momentPrefix,
  parseMoment,
  parsePartial,
  parseRecordKey,
  partialPrefix,
  recordKey,
  resultKey,
} from './keys.ts';
import type { CaptureRecord, Generation, StoredFile } from './records.ts';

/** The writer of a record. */
export interface Writer {
  readonly scope: KeyScope;
  /** A record of this attempt cannot name an object of a later one. */
  readonly attempt: number;
}

/** The first key or set in the record that no attempt of this index can have stored by then. */
export function foreignKeyIn(record: CaptureRecord, scope: KeyScope): string | undefined {
  const by = { scope, attempt: record.attempt };
  return (
    foreignResult(record.results, by) ??
    record.partials.find((file) => !isPartial(file, by))?.key ??
    firstOf(record.generations, (generation) => foreignInSet(generation, by)) ??
    record.segments.find((key) => !isList(key, by))
  );
}

/** The same for results, such as those of a list segment. */
export function foreignResult(
  results: readonly StoredFile[],
  { scope, attempt }: Writer,
): string | undefined {
  const isOwn = (file: StoredFile): boolean =>
    file.attempt <= attempt &&
    isInside(file.path) &&
    bareKey(file.key) === resultKey(file.path, plainScope(scope), file.compressed);
  return results.find((file) => !isOwn(file))?.key;
}

/** For keys without the ending of a sealed object: an index may have both. */
function plainScope({ taskName, index }: KeyScope): KeyScope {
  return { taskName, index };
}

function foreignInSet(set: Generation, by: Writer): string | undefined {
  const { members, companions, lacking = [] } = set;
  if (set.attempt > by.attempt) return `set ${set.attempt}-${set.generation}`;
  return (
    members.find((member) => !isMoment(member, by, false))?.key ??
    firstOf(
      companions,
      ({ path, segments }) => segments.find((one) => !isMoment({ ...one, path }, by, true))?.key,
    ) ??
    firstOf(lacking, ({ path, key }) =>
      key === undefined || isPartial({ path, key, compressed: isCompressedKey(key) }, by) ? undefined : key,
    )
  );
}

function firstOf<T>(all: readonly T[], keyOf: (one: T) => string | undefined): string | undefined {
  for (const one of all) {
    const key = keyOf(one);
    if (key !== undefined) return key;
  }
  return undefined;
}

interface Named {
  readonly path: RelPath;
  readonly key: string;
  readonly compressed: boolean;
}

function isMoment(named: Named, { scope, attempt }: Writer, isSegment: boolean): boolean {
  const at = parseMoment(restOf(named, momentPrefix(named.path, scope)));
  return at !== undefined && at.isSegment === isSegment && at.attempt <= attempt;
}

function isPartial(named: Named, { scope, attempt }: Writer): boolean {
  const by = parsePartial(restOf(named, partialPrefix(named.path, scope)));
  return by !== undefined && by <= attempt;
}

/** The part of the key after the prefix; '' if no key of this path has that form. */
function restOf({ path, key, compressed }: Named, prefix: string): string {
  const isOwn = isInside(path) && key.startsWith(prefix) && isCompressedKey(key) === compressed;
  return isOwn ? key.slice(prefix.length) : '';
}

function isList(key: string, { scope, attempt }: Writer): boolean {
  const at = parseRecordKey(key);
  return at !== undefined && at.attempt <= attempt && key === recordKey(scope, at.attempt, at.seq, 'list');
}
