// The commit of one generation: one record, after every member is durable; then what no kept generation needs
// any more is deleted. Nothing is deleted before the record stands.
import { generationName } from '../core/history.ts';
import type { Generation, StoredFile } from '../core/records.ts';
import { droppedGenerations, droppedKeys, keptGenerations, keysOf } from '../core/retention.ts';
import { plural } from '../core/units.ts';
import type { Ledger } from '../records/ledger.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Context } from './context.ts';

export type Marks = Pick<Generation, 'suspect' | 'incomplete'>;

/** Resolves when the generation is what a restore would take. Throws when it could not be recorded. */
export async function commitGeneration(
  context: Context,
  checkpoints: Checkpoints,
  members: readonly StoredFile[],
  marks: Marks,
): Promise<void> {
  const { ledger, log, settings, attempt, now, signal } = context;
  const before = ledger.generations;
  const generation: Generation = {
    attempt,
    generation: checkpoints.takeNumber(),
    at: new Date(now()).toISOString(),
    members: [...members],
    companions: [],
    ...marks,
  };
  const kept = keptGenerations([generation, ...before], settings.generations);
  ledger.setGenerations(kept);
  try {
    await ledger.write('checkpoint', {}, signal);
  } catch (error) {
    ledger.setGenerations(before);
    throw error;
  }
  log.info(
    `checkpoint ${generationName(generation)} is safe (${plural(members.length, 'file')}${describe(marks)})`,
  );
  const alive = new Set(kept.flatMap(keysOf));
  const dropped = droppedKeys(droppedGenerations(before, kept), kept);
  const dead = [...dropped.filter((key) => !checkpoints.isCurrent(key)), ...checkpoints.garbage(alive)];
  await context.tidy.delete(dead, signal);
  checkpoints.forget(dead);
}

function describe({ suspect, incomplete }: Marks): string {
  if (suspect === true) return ', suspect: it may be half-written';
  return incomplete === true ? ', incomplete' : '';
}

/** It was committed before the death of its writer was known: the next record, the last one, says so. */
export function markNewestSuspect({ ledger, log, attempt }: Context): void {
  const [newest, ...older] = ledger.generations;
  if (newest === undefined || newest.attempt !== attempt) return;
  ledger.setGenerations([{ ...newest, suspect: true }, ...older]);
  log.warn(`checkpoint ${generationName(newest)} may be half-written: restore prefers the one before`);
}

/** True when the newest generation names exactly these objects. */
export function isNewest(ledger: Ledger, members: readonly StoredFile[]): boolean {
  const newest = ledger.generations[0];
  if (newest === undefined || newest.members.length !== members.length) return false;
  const keys = new Set(newest.members.map((member) => member.key));
  return members.every((member) => keys.has(member.key));
}
