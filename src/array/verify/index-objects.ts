// Checks each object that the records of one index name once, and finds out what damage means for a restart.
import type { Damage, VerifiedIndex } from '../../model/format/json-output.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import { afterFailures, restoreOrder } from '../../model/checkpoint/restore-order.ts';
import type { Generation } from '../../model/format/records.ts';
import { listRecords } from '../../records/list.ts';
import { type Contents, contentsIn } from '../contents.ts';
import type { StoredArray } from '../stored-array.ts';
import type { IndexState } from '../state.ts';
import type { Check, Recorded } from './check.ts';

/** One object, and the file or set that it belongs to. */
interface NamedObject {
  readonly file: Recorded;
  readonly path: string;
  readonly generation: string | undefined;
}

export async function verifyIndex(
  array: StoredArray,
  one: IndexState,
  check: Check,
  signal: AbortSignal,
): Promise<VerifiedIndex> {
  const first = await lookAt(array, one, check, signal);
  if (first.damaged.length === 0) return first;
  // A run deletes and replaces objects after it has written the record. So objects of its newest record exist.
  const before = new Set(first.damaged.map(({ key }) => key));
  return lookAt(array, one, async (file) => (before.has(file.key) ? check(file) : undefined), signal);
}

async function lookAt(
  array: StoredArray,
  { index, state }: IndexState,
  check: Check,
  signal: AbortSignal,
): Promise<VerifiedIndex> {
  const listing = await listRecords(array.store, { taskName: array.taskName, index }, signal);
  const contents = await contentsIn(array, listing, signal);
  const { generations, partials, problems } = contents;
  const named = new Map<string, NamedObject>();
  for (const one of namedBy(contents)) if (!named.has(one.file.key)) named.set(one.file.key, one);
  for (const file of partials) named.set(file.key, { file, path: file.path, generation: undefined });
  let bytes = 0;
  const checked = [...named.values()].map(async ({ file, path, generation }): Promise<Damage[]> => {
    bytes += file.size;
    const why = await check(file);
    return why === undefined ? [] : [{ path, key: file.key, generation, why }];
  });
  // In the order of the records, not of the answers.
  const damaged = (await Promise.all(checked)).flat();
  return {
    index,
    state,
    objects: named.size,
    bytes,
    damaged,
    left: contents.left,
    checkpoints: generations.length,
    restart: restartOf(contents, new Set(damaged.map(({ key }) => key))),
    problems,
  };
}

function* namedBy({ history, generations }: Contents): Generator<NamedObject> {
  const { results, foreignResults } = history;
  for (const file of results.values()) yield { file, path: file.path, generation: undefined };
  for (const file of foreignResults.values())
    // Another run may have stored its own result under the same key.
    if (!results.has(file.path)) yield { file, path: file.path, generation: undefined };
  for (const one of generations) {
    const generation = generationName(one);
    for (const file of one.members) yield { file, path: file.path, generation };
    for (const { path, segments } of one.companions)
      for (const file of segments) yield { file, path, generation };
  }
}

function restartOf({ generations, history }: Contents, damaged: ReadonlySet<string>): string | undefined {
  const isWhole = ({ members, companions }: Generation): boolean =>
    members.every(({ key }) => !damaged.has(key)) &&
    companions.every(({ segments }) => segments.every(({ key }) => !damaged.has(key)));
  const next = afterFailures(restoreOrder(generations), history.attempts).find(isWhole);
  return next === undefined ? undefined : generationName(next);
}
