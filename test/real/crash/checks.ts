// What must hold after every death, whatever died and when. Each check throws what it found.
import fs from 'node:fs';
import path from 'node:path';
import { createHash } from 'node:crypto';
import { EXIT } from '../../../src/model/exit-status.ts';
import { unionOf } from '../../../src/model/checkpoint/history.ts';
import type { Generation, StoredFile } from '../../../src/model/format/records.ts';
import { content, readContent } from './content.mjs';
import { isData, recordsOf, type View } from './view.ts';

export const CHECKPOINTS = ['a.chk', 'b.chk'] as const;
/** No chain of runs makes more. */
const MOST_ROUNDS = 100;

/** What the task said in one work directory. */
export interface Said {
  /** By path the newest round that it closed. */
  readonly closed: ReadonlyMap<string, number>;
  /** The same of its last start alone. */
  readonly closedLast: ReadonlyMap<string, number>;
  /** What its last start found: rounds of both checkpoints and of the result that is an input. */
  readonly from: { readonly a: number; readonly b: number; readonly hasInput: boolean } | undefined;
}

export function readLog(log: string): Said {
  const closed = new Map<string, number>();
  const closedLast = new Map<string, number>();
  let from: Said['from'];
  for (const line of fs.existsSync(log) ? fs.readFileSync(log, 'utf8').split('\n') : []) {
    const [word, first = '', second = '', , input] = line.split(' ');
    if (word === 'closed') {
      closed.set(first, Number(second));
      closedLast.set(first, Number(second));
    }
    if (word === 'from') closedLast.clear();
    if (word === 'from') from = { a: Number(first), b: Number(second), hasInput: input === 'true' };
  }
  return { closed, closedLast, from };
}

/** The newest whole generation, as a restore has to choose it: 0 when there is none. */
export function newestRound(view: View): number {
  const [newest] = goodGenerations(view);
  return newest === undefined ? 0 : roundOfGeneration(view, newest);
}

function goodGenerations(view: View): readonly Generation[] {
  const { generations } = unionOf(recordsOf(view), undefined);
  // One that is not proven yet promises nothing: the next attempt prefers the newest that is.
  return generations.filter(
    ({ suspect, incomplete, unproven, instant }) =>
      suspect !== true && incomplete !== true && unproven !== true && instant !== true,
  );
}

/** Every state that anybody could see was one that the task had closed. */
export function nothingTornWasVisible(view: View): void {
  for (const { key, bytes } of view.newlyVisible()) {
    const found = readContent(bytes);
    if (found === undefined) throw new Error(`${key} was visible and is no state that the task closed`);
    if (!key.startsWith(found.name)) throw new Error(`${key} holds ${found.name}`);
  }
}

/** The newest good generation can be restored, is of one round, and no older than it was before. */
export function generationsAreWhole(view: View, reachedBefore: number): void {
  const round = newestRound(view);
  if (round < reachedBefore)
    throw new Error(`the newest checkpoint went back from round ${reachedBefore} to ${round}`);
}

function roundOfGeneration(view: View, { attempt, generation, members }: Generation): number {
  const name = `checkpoint ${attempt}-${generation}`;
  const keys = new Set(view.keys());
  const rounds = members.map(({ path, key, md5 }) => {
    if (!keys.has(key)) throw new Error(`${name}: ${key} is not there`);
    const held = view.object(key);
    if (held.md5 !== md5) throw new Error(`${name}: ${key} is not what its record says`);
    if (held.content?.name !== path) throw new Error(`${name}: ${key} is not whole`);
    return held.content.round;
  });
  if (members.length !== CHECKPOINTS.length || new Set(rounds).size !== 1)
    throw new Error(`${name} is of rounds ${rounds.join(' and ')}`);
  return rounds[0] ?? 0;
}

/** What a record says is stored: under its key, or the task's newer one, or kept beside it. */
export function recordedResultsAreThere(view: View): void {
  for (const { results } of recordsOf(view)) {
    for (const file of results) {
      const round = roundOfMd5(file);
      if (!statesOf(view, file.path).some((stored) => stored >= round))
        throw new Error(
          `${file.path} of round ${round} is recorded by attempt ${file.attempt} and not there`,
        );
    }
  }
}

/** All rounds of a result that stand in the store. */
function statesOf(view: View, name: string): readonly number[] {
  return view
    .keys()
    .filter(
      (key) =>
        /^\.3(\.partial-\d+)?(\.~\d+~)?(\.zst)?(\.age)?$/.test(key.slice(name.length)) &&
        key.startsWith(name),
    )
    .map((key) => view.object(key).content?.round ?? -1);
}

/** By path what each round's content has for its md5, as far as it was asked for. */
const rounds = new Map<string, Map<string, number>>();

function roundOfMd5({ path, md5 }: StoredFile): number {
  const known = rounds.get(path) ?? new Map<string, number>();
  rounds.set(path, known);
  for (let round = known.size / 2; round <= MOST_ROUNDS && !known.has(md5); round += 1) {
    // The two of a small file are the same: counted all the same.
    known.set(md5Of(Buffer.from(content(path, round, false))), round);
    known.set(path.includes('/m') ? md5Of(Buffer.from(content(path, round, true))) : `${round}`, round);
  }
  const round = known.get(md5);
  if (round === undefined) throw new Error(`${path}: a record names content that the task never made`);
  return round;
}

/** What the task closed here is here still, or it is stored and a record says so. */
export function nothingIsDeletedTooEarly(view: View, work: string, { closed }: Said): void {
  const records = recordsOf(view);
  const set = ['reclaim', 'aside'].flatMap((place) => filesIn(path.join(work, '.capture', place)));
  for (const [name, round] of closed) {
    if (fs.existsSync(path.join(work, name))) continue;
    if (set.some((file) => isContent(file, name, round))) continue;
    const named = records.flatMap(({ record, results }) => [
      ...[...results, ...record.partials].map((file) => ({
        file,
        isStored: () => statesOf(view, name).some((stored) => stored >= round),
      })),
      ...record.generations.flatMap(({ members }) =>
        members.map((file) => ({ file, isStored: () => view.keys().includes(file.key) })),
      ),
    ]);
    const isSafe = named.some(
      ({ file, isStored }) => file.path === name && roundOfMd5(file) >= round && isStored(),
    );
    if (!isSafe) throw new Error(`${name} of round ${round} is deleted here, and no record says where it is`);
  }
}

function filesIn(dir: string): readonly string[] {
  return fs.existsSync(dir) ? fs.readdirSync(dir).map((name) => path.join(dir, name)) : [];
}

function isContent(file: string, name: string, round: number): boolean {
  const found = readContent(fs.readFileSync(file));
  return found?.name === name && found.round >= round;
}

/** After an end that says that all is well: all is stored, recorded, and nothing is left half-way. */
export function allIsDone(view: View, work: string, { closedLast }: Said): void {
  const newest = recordsOf(view).at(-1);
  // What an earlier attempt had written and did not live to store is named.
  if (newest === undefined || (newest.record.kind !== 'done' && newest.record.left.length === 0))
    throw new Error(`the last record says ${newest?.record.kind}`);
  for (const [name, round] of closedLast) {
    if ((CHECKPOINTS as readonly string[]).includes(name)) continue;
    const file = [...newest.results].find((stored) => stored.path === name);
    if (file === undefined || roundOfMd5(file) !== round)
      throw new Error(`the last record does not name ${name} of round ${round}`);
    if (!view.keys().includes(file.key)) throw new Error(`${file.key} is not there`);
    if (view.object(file.key).md5 !== file.md5)
      throw new Error(`${file.key} is not what the last record says`);
  }
  const round = closedLast.get('b.chk') ?? 0;
  if (newestRound(view) < round) throw new Error(`the checkpoint of round ${round} is not stored`);
  const leftHere = ['reclaim', 'restore'].flatMap((place) => filesIn(path.join(work, '.capture', place)));
  if (leftHere.length > 0) throw new Error(`left behind: ${leftHere.join(', ')}`);
  // An attempt that never was cannot be swept after: the file of its claim stays until there is a second one.
  const isOfNoAttempt = (key: string): boolean => newest.record.attempt === 1 && (key === '' || !isData(key));
  const inStore = view.leftovers().filter((key) => !isOfNoAttempt(key));
  if (inStore.length > 0) throw new Error(`left in the store: ${inStore.join(', ')}`);
}

/** With what a run ends that nothing disturbed: 74 if its record names results that earlier attempts have lost. */
export function undisturbedStatus(view: View): number {
  return recordsOf(view).at(-1)?.record.left.length === 0 ? EXIT.ok : EXIT.notStored;
}

/** After a run that was done and that nothing disturbed: every checkpoint object is one that a record names. */
export function nothingIsStray(view: View): void {
  const generations = recordsOf(view).flatMap(({ record }) => record.generations);
  const named = new Set(generations.flatMap(({ members }) => members.map(({ key }) => key)));
  const strays = view.keys().filter((key) => /^[ab]\.chk\.t\.3\.\d/.test(key) && !named.has(key));
  if (strays.length > 0) throw new Error(`no record names ${strays.join(', ')}`);
}

function md5Of(bytes: Buffer): string {
  return createHash('md5').update(bytes).digest('hex');
}
