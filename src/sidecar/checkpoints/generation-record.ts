// What records say about generations: one record commits a new one, and then the objects that no kept generation needs
// are deleted. Later records say that it is proven, suspect, or has newer companions. The caller has checked that every
// member is durable. Nothing is deleted before the record is stored.
import { companionsContinue, sameCompanions } from '../../model/checkpoint/companions.ts';
import { preferenceLine } from '../../model/checkpoint/generation-words.ts';
import { generationName } from '../../model/checkpoint/history.ts';
import {
  droppedGenerations,
  droppedKeys,
  keptGenerations,
  generationKeys,
  withinRoom,
} from '../../model/checkpoint/retention.ts';
import type { Companion, Generation, StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { reached } from '../../native/failpoint.ts';
import type { Ledger } from '../../records/ledger.ts';
import type { Files } from '../queue/files.ts';
import type { Needs } from '../run/context.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Companions } from './companions.ts';

type RecordContext = Needs<'settings' | 'log' | 'attempt' | 'ledger' | 'tidy' | 'signal' | 'now'>;

export type Marks = Pick<Generation, 'suspect' | 'incomplete' | 'instant' | 'unproven' | 'proof'>;
/** A set that is not whole, whatever the closes of its files prove. */
export const LACKS_SOME: Marks = { incomplete: true, proof: undefined };

/** The results that the set is ahead of, and what they lack. */
export type Losses = Pick<Generation, 'behind' | 'lacking'>;

export interface GenerationFiles {
  readonly members: readonly StoredFile[];
  readonly companions: readonly Companion[];
  /** The number of its members' newest close, among all closes; undefined: unknown. */
  readonly upTo?: number | undefined;
}

export interface Members {
  readonly members: readonly StoredFile[];
}

/** True if no death that is noticed later can make the set suspect. `newestFirst`: all sets, if it is one of them. */
export type IsProven = (generation: Members, newestFirst: readonly Generation[]) => boolean;

/** Says which objects are still needed. */
export interface Keepers {
  readonly checkpoints: Checkpoints;
  readonly companions: Companions;
  /** Objects of cuts that are under way. */
  readonly inUse: () => readonly string[];
  /** Files that the next cut may hold. */
  readonly mayBeCut: () => ReadonlySet<RelPath>;
  readonly isProven: IsProven;
  /** A record has room only for so many of the generations that should be kept. */
  readonly onNoRoom: (kept: number, wanted: number) => void;
}

interface MadeGeneration {
  readonly number: number;
  readonly files: GenerationFiles;
  readonly marks: Marks & Losses;
}

/** Resolves to the generation once it is recorded. Throws if it could not be recorded. */
export async function commitGeneration(
  context: RecordContext,
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
  const all = provenAmong([generation, ...context.ledger.generations], context, keepers.isProven);
  const isProven = (one: Generation): boolean => keepers.isProven(one, all);
  const wanted = keptGenerations(all, settings.generations, isProven);
  const kept = withinRoom(wanted, isProven);
  if (kept.length < wanted.length) keepers.onNoRoom(kept.length, wanted.length);
  const dropped = await record(context, 'checkpoint', kept);
  await deleteUnneeded(context, keepers, dropped);
  return all[0] ?? generation;
}

/** Without the mark of this attempt's generations that are proven by now. The next record says so. */
function provenAmong(
  newestFirst: readonly Generation[],
  { attempt }: Pick<RecordContext, 'attempt'>,
  isProven: IsProven,
): readonly Generation[] {
  return newestFirst.map((one) =>
    one.unproven === true && one.attempt === attempt && isProven(one, newestFirst)
      ? { ...one, unproven: undefined }
      : one,
  );
}

/**
 * Records which generations are proven by now, and drops those that were kept only until then. Throws if that could not
 * be recorded.
 */
export async function recordProven(context: RecordContext, keepers: Keepers): Promise<void> {
  const { ledger, settings } = context;
  const proven = provenAmong(ledger.generations, context, keepers.isProven);
  const kept = keptGenerations(proven, settings.generations, (one) => keepers.isProven(one, proven));
  const isNews = proven.some((one, at) => one !== ledger.generations[at]);
  if (!isNews && kept.length === ledger.generations.length) return;
  await deleteUnneeded(context, keepers, await record(context, 'stored', kept));
}

/** Resolves to the generations that the newest record no longer names. */
async function record(
  { ledger, signal }: RecordContext,
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

/** Deletes the objects of `dropped` generations, and objects of this attempt, unless something still needs them. */
export async function deleteUnneeded(
  context: RecordContext,
  { checkpoints, companions, inUse, mayBeCut }: Keepers,
  dropped: readonly Generation[],
): Promise<void> {
  const kept = context.ledger.generations;
  const alive = new Set([...kept.flatMap(generationKeys), ...inUse()]);
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

/** The last close of a file, and the content that is stored of it. */
export interface LastClose {
  readonly atMs: number;
  /** Undefined if this sidecar has not stored it. */
  readonly md5: string | undefined;
}

export function lastClosesOf(
  paths: readonly RelPath[],
  {
    files,
    checkpoints,
  }: { readonly files: Pick<Files, 'get'>; readonly checkpoints: Pick<Checkpoints, 'newestOf'> },
): ReadonlyMap<RelPath, LastClose> {
  return new Map(
    paths.map((path) => [
      path,
      {
        atMs: files.get(path, 'checkpoint')?.lastClose?.atMs ?? Infinity,
        md5: checkpoints.newestOf(path)?.md5,
      },
    ]),
  );
}

/**
 * Marks generations as suspect that were committed before a writer's death was noticed. The next record says so.
 * `suspects`: the closes that the kernel may have made for the dying process. A generation that was committed before
 * such a close holds older content, unless it is unproven: a sidecar that replaces another finds the same bytes later.
 * `hint`: how the user can say that nothing is half-written. True if any generation was marked.
 */
export function markSuspect(
  { ledger, log, attempt }: RecordContext,
  suspects: ReadonlyMap<RelPath, LastClose>,
  hint?: string,
): boolean {
  const isOfDeath = (generation: Generation): boolean =>
    generation.attempt === attempt &&
    generation.suspect !== true &&
    generation.members.some(({ path, md5 }) => {
      const close = suspects.get(path);
      if (close === undefined || md5 !== (close.md5 ?? md5)) return false;
      return generation.unproven === true || Date.parse(generation.at) >= close.atMs;
    });
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
    hint,
  });
  return true;
}

/**
 * The task has ended, and everything that its end made suspect is marked: the other generations are proven if their
 * doubt is settled. The last record says so.
 */
export function markProven(context: Pick<RecordContext, 'ledger' | 'attempt'>, isSettled: IsProven): void {
  const { ledger } = context;
  ledger.setGenerations(provenAmong(ledger.generations, context, isSettled));
}

/** True when the newest generation names exactly these objects. */
export function isNewest(ledger: Ledger, members: readonly StoredFile[]): boolean {
  const newest = ledger.generations[0];
  if (newest === undefined || newest.members.length !== members.length) return false;
  const keys = new Set(newest.members.map((member) => member.key));
  return members.every((member) => keys.has(member.key));
}

/**
 * Makes the newest generation name the segments that companions got since. The caller writes the record. False if
 * nothing can be named: the generation is an earlier attempt's, and the task may have truncated its files since; or a
 * companion does not continue what the generation holds.
 */
export function nameInNewest({ ledger, attempt }: RecordContext, now: readonly Companion[]): boolean {
  const [newest, ...older] = ledger.generations;
  if (newest?.attempt !== attempt) return false;
  // A result that was closed since is no longer a companion. The set keeps it as far as it was written then.
  const closed = newest.companions.filter(
    ({ path, result }) => result === true && !now.some((companion) => companion.path === path),
  );
  const companions = [...now, ...closed];
  if (!companionsContinue(newest.companions, companions) || sameCompanions(newest.companions, companions))
    return false;
  ledger.setGenerations([{ ...newest, companions }, ...older]);
  return true;
}

/** True if there are companions, and the newest generation does not hold all of their content. */
export function isRenewed({ generations }: Ledger, companions: readonly Companion[]): boolean {
  return companions.length > 0 && !sameCompanions(generations[0]?.companions ?? [], companions);
}

/**
 * With `--drop-checkpoints-when-done` the last record names no sets, and says so: a later start then ignores sets that
 * an earlier record names. Returns their objects. The caller writes that record and then deletes the objects.
 */
export function dropCheckpoints({ ledger, settings }: Needs<'ledger' | 'settings'>): readonly string[] {
  if (settings.dropCheckpoints !== true) return [];
  const dropped = ledger.generations.flatMap(generationKeys);
  ledger.setGenerations([]);
  ledger.pruned = true;
  return [...new Set(dropped)];
}
