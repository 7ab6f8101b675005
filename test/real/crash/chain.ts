// One index, killed again and again: each attempt dies its deaths, and what must hold is looked at before the
// next one starts. The chain ends with a run that has nothing to do and must upload nothing.
import fs from 'node:fs';
import path from 'node:path';
import {
  allIsDone,
  generationsAreWhole,
  newestRound,
  nothingIsDeletedTooEarly,
  nothingIsStray,
  nothingTornWasVisible,
  readLog,
  recordedResultsAreThere,
  undisturbedStatus,
} from './checks.ts';
import { content } from './content.mjs';
import { diedOf, runOnce, type Death, type Deaths } from './run.ts';
import type { View } from './view.ts';

const ROUNDS = 3;

export interface Link {
  readonly deaths: Deaths;
  /** Of the task between two rounds. */
  readonly pauseMs: number;
  /** The next attempt finds an empty work directory: another machine. */
  readonly fresh: boolean;
}

export interface ChainOptions {
  /** The program to run. */
  readonly bin: string;
  /** A directory of its own. */
  readonly dir: string;
  readonly view: View;
  readonly links: readonly Link[];
  /** Results of several parts. */
  readonly big: boolean;
}

export interface ChainEnd {
  /** Deaths that took place. */
  readonly deaths: Deaths;
  readonly failure: string | undefined;
}

/** Runs the whole chain; the first check that fails ends it. */
export async function runChain(options: ChainOptions): Promise<ChainEnd> {
  const { dir, view, links } = options;
  const deaths: Death[] = [];
  const inputs = path.join(dir, 'inputs');
  fs.mkdirSync(inputs);
  fs.writeFileSync(path.join(inputs, 'in.dat'), content('in.dat', 0));
  let machine = 1;
  let past: readonly string[] = [];
  const place = () => ({ work: path.join(dir, `work-${machine}`), log: path.join(dir, `log-${machine}`) });
  try {
    for (const [at, link] of links.entries()) {
      past = [...past, describe(link)];
      const before = newestRound(view);
      const { work, log } = place();
      fs.mkdirSync(work, { recursive: true });
      const run = {
        ...options,
        ...link,
        inputs,
        mark: path.join(dir, `mark-${at}`),
        rounds: ROUNDS,
        work,
        log,
        stderr: path.join(dir, `said-${at}`),
      };
      const status = await runOnce(run);
      const died = diedOf(run);
      deaths.push(...died);
      const said = readLog(log);
      if (said.from !== undefined && said.from.a !== said.from.b)
        throw new Error('restored from two moments');
      if (said.from?.hasInput === false) throw new Error('started without its input');
      nothingTornWasVisible(view);
      generationsAreWhole(view, before);
      recordedResultsAreThere(view);
      nothingIsDeletedTooEarly(view, work, said);
      if (status === 0) allIsDone(view, work, said);
      // What an earlier death has left is named, and is no other failure.
      else if (died.length === 0 && status !== undisturbedStatus(view))
        throw new Error(`ended with ${status} although nothing died`);
      if (link.fresh) machine += 1;
    }
    past = [...past, 'a run that has nothing to do'];
    await nothingToDo(options, { ...place(), inputs });
    return { deaths, failure: undefined };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { deaths, failure: `${why}\n  after ${past.join(',\n    ')}\n${lastWords(dir)}` };
  }
}

/** What the newest run said. */
function lastWords(dir: string): string {
  const said = fs.readdirSync(dir).filter((name) => name.startsWith('said-'));
  const newest = said.toSorted((a, b) => mtimeMs(dir, a) - mtimeMs(dir, b)).at(-1);
  return newest === undefined ? '' : fs.readFileSync(path.join(dir, newest), 'utf8');
}

function mtimeMs(dir: string, name: string): number {
  return fs.statSync(path.join(dir, name)).mtimeMs;
}

/** First whatever is left to save, then a run in which nothing changes. */
async function nothingToDo(
  options: ChainOptions,
  { work, log, inputs }: { readonly work: string; readonly log: string; readonly inputs: string },
): Promise<void> {
  const { view, dir } = options;
  fs.mkdirSync(work, { recursive: true });
  for (const rounds of [1, 0]) {
    const before = view.uploads();
    const stderr = path.join(dir, `said-last-${rounds}`);
    const mark = path.join(dir, 'mark-last');
    const rest = { deaths: [], pauseMs: 0, mark, rounds, work, log, inputs, stderr };
    const status = await runOnce({ ...options, ...rest });
    if (status !== undisturbedStatus(view)) throw new Error(`the undisturbed run ended with ${status}`);
    allIsDone(view, work, readLog(log));
    nothingIsStray(view);
    if (rounds === 0 && view.uploads() !== before)
      throw new Error('a run in which nothing changed uploaded data');
  }
}

function describe({ deaths, fresh }: Link): string {
  const each = deaths.map((death) => {
    const at = death.kind === 'failpoint' ? `${death.at} (${death.nth})` : `${death.afterMs} ms`;
    return `${death.victim} at ${at}`;
  });
  return `${each.join(', then ')}${fresh ? ', then a fresh directory' : ''}`;
}
