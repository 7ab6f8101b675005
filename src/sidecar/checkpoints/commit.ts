// The commit of one generation: one record, after every member is durable; then what no kept generation needs
// any more is deleted. Nothing is deleted before the record stands.
import { goOn, sameCompanions } from '../../model/checkpoint/companions.ts';
import { preferenceLine } from '../../model/checkpoint/generation-words.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import {
  droppedGenerations,
  droppedKeys,
  keptGenerations,
  keysOf,
} from '../../model/checkpoint/retention.ts';
import type { Companion, Generation, StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { reached } from '../../native/failpoint.ts';
import type { Ledger } from '../../records/ledger.ts';
import type { Needs } from '../run/context.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Companions } from './companions.ts';

/** What it takes of the run. */
type Uses = Needs<'settings' | 'log' | 'attempt' | 'ledger' | 'tidy' | 'signal' | 'now'>;

export type Marks = Pick<Generation, 'suspect' | 'incomplete' | 'instant' | 'unproven'>;
/** What the set is ahead of. */
export type Losses = Pick<Generation, 'behind' | 'lacking'>;

export interface GenerationFiles {
  readonly members: readonly StoredFile[];
  readonly companions: readonly Companion[];
}

/** Who knows which objects are still needed. */
export interface Keepers {
  readonly checkpoints: Checkpoints;
  readonly companions: Companions;
  /** Objects of cuts that are on their way. */
  readonly inUse: () => readonly string[];
  /** Files that the next cut may hold. */
  readonly mayBeCut: () => ReadonlySet<RelPath>;
  /** No death that comes to light later makes it suspect. */
  readonly isProven: (generation: Generation) => boolean;
}

export interface MadeGeneration {
  readonly number: number;
  readonly files: GenerationFiles;
  readonly marks: Marks & Losses;
}

/** Resolves to the generation when it is recorded. Throws when it could not be. */
export async function commitGeneration(
  context: Uses,
  keepers: Keepers,
  { number, files, marks }: MadeGeneration,
): Promise<Generation> {
  const { settings, attempt, now } = context;
  const generation: Generation = {
    attempt,
    generation: number,
    at: new Date(now()).toISOString(),
    members: [...files.members],
    companions: [...files.companions],
    ...marks,
  };
  const before = asProvenNow(context, keepers);
  const kept = keptGenerations([generation, ...before], settings.generations, keepers.isProven);
  const dropped = await record(context, 'checkpoint', kept);
  await deleteUnneeded(context, keepers, dropped);
  return generation;
}

/** Of this attempt's generations those that are proven by now lose their mark: the next record says so. */
function asProvenNow({ ledger, attempt }: Uses, { isProven }: Keepers): readonly Generation[] {
  return ledger.generations.map((one) =>
    one.unproven === true && one.attempt === attempt && isProven(one) ? { ...one, unproven: undefined } : one,
  );
}

/**
 * What is proven by now is said to be, and what was kept only until then is dropped. Throws when that could not be
 * recorded.
 */
export async function recordProven(context: Uses, keepers: Keepers): Promise<void> {
  const { ledger, settings } = context;
  const proven = asProvenNow(context, keepers);
  const kept = keptGenerations(proven, settings.generations, keepers.isProven);
  const isNews = proven.some((one, at) => one !== ledger.generations[at]);
  if (!isNews && kept.length === ledger.generations.length) return;
  await deleteUnneeded(context, keepers, await record(context, 'stored', kept));
}

/** Resolves to the generations that the store's newest record names no longer. */
async function record(
  { ledger, signal }: Uses,
  kind: 'checkpoint' | 'stored',
  kept: readonly Generation[],
): Promise<readonly Generation[]> {
  const before = ledger.generations;
  ledger.setGenerations(kept);
  try {
    reached('commit.before-record');
    await ledger.write(kind, {}, signal);
    reached('commit.after-record');
  } catch (error) {
    ledger.setGenerations(before);
    throw error;
  }
  return droppedGenerations(before, kept);
}

/** Deletes the objects of `dropped` generations, and those of this attempt, that nothing needs any more. */
export async function deleteUnneeded(
  context: Uses,
  { checkpoints, companions, inUse, mayBeCut }: Keepers,
  dropped: readonly Generation[],
): Promise<void> {
  const kept = context.ledger.generations;
  const alive = new Set([...kept.flatMap(keysOf), ...inUse()]);
  const current = checkpoints.currentOf(mayBeCut());
  const isFree = (key: string): boolean => !alive.has(key) && !current.has(key) && !companions.isCurrent(key);
  const dead = [
    ...new Set([
      ...droppedKeys(dropped, kept).filter(isFree),
      ...checkpoints.objects.filter(isFree),
      ...companions.garbage(alive),
    ]),
  ];
  await context.tidy.delete(dead, context.signal);
  checkpoints.forget(dead);
  companions.forget(dead);
}

/**
 * They were committed before the death of a writer was known: the next record says so. `closedAtMs`: by object when
 * the close came that may be the death's; what was committed before it holds another's content. True when any was
 * marked.
 */
export function markSuspect(
  { ledger, log, attempt }: Uses,
  closedAtMs: ReadonlyMap<string, number>,
): boolean {
  const isOfDeath = (generation: Generation): boolean =>
    generation.attempt === attempt &&
    generation.suspect !== true &&
    generation.members.some(({ key }) => Date.parse(generation.at) >= (closedAtMs.get(key) ?? Infinity));
  const marked = ledger.generations.filter(isOfDeath);
  if (marked.length === 0) return false;
  ledger.setGenerations(
    ledger.generations.map((one) =>
      marked.includes(one) ? { ...one, suspect: true, unproven: undefined } : one,
    ),
  );
  const names = marked.map(generationName).join(', ');
  log.warn(`checkpoint ${names} may be half-written: ${preferenceLine(ledger.generations)}`, {
    event: 'half-written',
    generations: marked.map(generationName),
    hint: 'a task that closes its files before it exits says so: --trust-exit <status> or --again-status <status>',
  });
  return true;
}

/** The task has ended, and what its end made suspect is marked: the others are proven. The last record says so. */
export function markProven({ ledger, attempt }: Uses): void {
  ledger.setGenerations(
    ledger.generations.map((one) => (one.attempt === attempt ? { ...one, unproven: undefined } : one)),
  );
}

/** True when the newest generation names exactly these objects. */
export function isNewest(ledger: Ledger, members: readonly StoredFile[]): boolean {
  const newest = ledger.generations[0];
  if (newest === undefined || newest.members.length !== members.length) return false;
  const keys = new Set(newest.members.map((member) => member.key));
  return members.every((member) => keys.has(member.key));
}

/**
 * Makes the newest generation name what companions have grown by since; the caller writes the record. False
 * when there is nothing to name: it is an earlier attempt's, which the task may have cut its files back from,
 * or a companion does not go on from what it holds.
 */
export function nameInNewest({ ledger, attempt }: Uses, now: readonly Companion[]): boolean {
  const [newest, ...older] = ledger.generations;
  if (newest?.attempt !== attempt) return false;
  // A result that was closed since is none any more: as far as it was then it stays with the set.
  const closed = newest.companions.filter(
    ({ path, result }) => result === true && !now.some((companion) => companion.path === path),
  );
  const companions = [...now, ...closed];
  if (!goOn(newest.companions, companions) || sameCompanions(newest.companions, companions)) return false;
  ledger.setGenerations([{ ...newest, companions }, ...older]);
  return true;
}

/** True when there are companions, and the newest generation has not all that they hold. */
export function isRenewed({ generations }: Ledger, companions: readonly Companion[]): boolean {
  return companions.length > 0 && !sameCompanions(generations[0]?.companions ?? [], companions);
}

/**
 * Sets need not hold a result any more that has come to be stored under its key since. Gives the objects that nothing
 * names once the next record says so: the caller writes it, and deletes them.
 */
export function dropStoredResults({ ledger }: Needs<'ledger'>): readonly string[] {
  const isStored = (generation: Generation, { path, closed }: Companion): boolean =>
    closed === true && (ledger.results.get(path)?.attempt ?? 0) >= generation.attempt;
  const before = ledger.generations;
  const after = before.map((one) => ({
    ...one,
    companions: one.companions.filter((companion) => !isStored(one, companion)),
  }));
  ledger.setGenerations(after);
  const alive = new Set(after.flatMap(keysOf));
  return [...new Set(before.flatMap(keysOf))].filter((key) => !alive.has(key));
}
