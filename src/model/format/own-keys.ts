// Which keys are believed of a record. What a record names is downloaded, renamed and deleted, so it may name only what
// its own task and index could have stored by then: each kind of object has one shape of key (keys.ts). Pure;
// records/claim and records/read ask it of everything that they read.
import { isInside, type RelPath } from '../path.ts';
import {
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

/** Who has written what is read. */
export interface Writer {
  readonly scope: KeyScope;
  /** It knows nothing of a later one. */
  readonly attempt: number;
}

/** The first key in the record that this index has not stored by then, as no attempt of it would build it. */
export function foreignKeyIn(record: CaptureRecord, scope: KeyScope): string | undefined {
  const by = { scope, attempt: record.attempt };
  return (
    foreignResult(record.results, by) ??
    record.partials.find((file) => !isPartial(file, by))?.key ??
    firstOf(record.generations, (generation) => foreignInSet(generation, by)) ??
    record.segments.find((key) => !isList(key, by))
  );
}

/** The same of results, such as those of a list segment. */
export function foreignResult(
  results: readonly StoredFile[],
  { scope, attempt }: Writer,
): string | undefined {
  const isOwn = (file: StoredFile): boolean =>
    file.attempt <= attempt &&
    isInside(file.path) &&
    file.key === resultKey(file.path, scope, file.compressed);
  return results.find((file) => !isOwn(file))?.key;
}

function foreignInSet({ members, companions, lacking = [] }: Generation, by: Writer): string | undefined {
  return (
    members.find((member) => !isMoment(member, by, false))?.key ??
    firstOf(
      companions,
      ({ path, segments }) => segments.find((one) => !isMoment({ ...one, path }, by, true))?.key,
    ) ??
    firstOf(lacking, ({ path, key }) =>
      key === undefined || isPartial({ path, key, compressed: key.endsWith('.zst') }, by) ? undefined : key,
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

/** What follows the prefix in a key; '' if this path has no such key. */
function restOf({ path, key, compressed }: Named, prefix: string): string {
  const isOwn = isInside(path) && key.startsWith(prefix) && key.endsWith('.zst') === compressed;
  return isOwn ? key.slice(prefix.length) : '';
}

function isList(key: string, { scope, attempt }: Writer): boolean {
  const at = parseRecordKey(key);
  return at !== undefined && at.attempt <= attempt && key === recordKey(scope, at.attempt, at.seq, 'list');
}
