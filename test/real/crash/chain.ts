// One index, killed again and again: each attempt dies at its point, and what must hold is looked at before the
// next one starts. The chain ends with a run that has nothing to do and must upload nothing.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Failpoint } from '../../../src/native/failpoint.ts';
import { sidecarOf } from '../../e2e/support.ts';
import {
  allIsDone,
  generationsAreWhole,
  newestRound,
  nothingIsDeletedTooEarly,
  nothingTornWasVisible,
  readLog,
  recordedResultsAreThere,
} from './checks.ts';
import { content } from './content.mjs';
import type { View } from './view.ts';

const TASK = fileURLToPath(new URL('task.mjs', import.meta.url));
/** Nothing of a run may go on for longer. */
const BOUND_MS = 60_000;

/** When one attempt dies, and what of it. */
export type Death =
  | {
      readonly kind: 'failpoint';
      readonly at: Failpoint;
      readonly nth: number;
      readonly victim: 'sidecar' | 'all';
    }
  | { readonly kind: 'random'; readonly afterMs: number; readonly victim: 'sidecar' | 'launcher' | 'all' };

export type Link = Death & {
  /** The next attempt finds an empty work directory: another machine. */
  readonly fresh: boolean;
};

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
  readonly deaths: readonly Link[];
  readonly failure: string | undefined;
}

/** Runs the whole chain; the first check that fails ends it. */
export async function runChain(options: ChainOptions): Promise<ChainEnd> {
  const { dir, view, links } = options;
  const deaths: Link[] = [];
  const inputs = path.join(dir, 'inputs');
  fs.mkdirSync(inputs);
  fs.writeFileSync(path.join(inputs, 'in.dat'), content('in.dat', 0));
  let machine = 1;
  let past: readonly string[] = [];
  const place = () => ({ work: path.join(dir, `work-${machine}`), log: path.join(dir, `log-${machine}`) });
  try {
    for (const [at, link] of links.entries()) {
      past = [...past, describe(link)];
      const mark = path.join(dir, `mark-${at}`);
      const before = newestRound(view);
      const { work, log } = place();
      fs.mkdirSync(work, { recursive: true });
      const status = await runOne(options, {
        link,
        mark,
        rounds: 3,
        work,
        log,
        stderr: path.join(dir, `said-${at}`),
      });
      if (fs.existsSync(mark)) deaths.push(link);
      const said = readLog(log);
      if (said.from !== undefined && said.from.a !== said.from.b)
        throw new Error('restored from two moments');
      if (said.from?.hasInput === false) throw new Error('started without its input');
      nothingTornWasVisible(view);
      generationsAreWhole(view, before);
      recordedResultsAreThere(view);
      nothingIsDeletedTooEarly(view, work, said);
      if (status === 0) allIsDone(view, work, said);
      else if (!fs.existsSync(mark)) throw new Error(`ended with ${status} although nothing died`);
      if (link.fresh) machine += 1;
    }
    past = [...past, 'a run that has nothing to do'];
    await nothingToDo(options, place());
    return { deaths, failure: undefined };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { deaths, failure: `${why}\n  after ${past.join(', ')}\n${lastWords(dir)}` };
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
  { work, log }: { work: string; log: string },
): Promise<void> {
  const { view, dir } = options;
  fs.mkdirSync(work, { recursive: true });
  for (const rounds of [1, 0]) {
    const before = view.uploads();
    const stderr = path.join(dir, `said-last-${rounds}`);
    const status = await runOne(options, { link: undefined, mark: '', rounds, work, log, stderr });
    if (status !== 0) throw new Error(`the undisturbed run ended with ${status}`);
    allIsDone(view, work, readLog(log));
    if (rounds === 0 && view.uploads() !== before)
      throw new Error('a run in which nothing changed uploaded data');
  }
}

interface OneRun {
  readonly link: Link | undefined;
  readonly mark: string;
  readonly rounds: number;
  readonly work: string;
  readonly log: string;
  readonly stderr: string;
}

/** The exit status, or undefined when the launcher was killed. Nothing of the run is left when it resolves. */
async function runOne({ bin, dir, view, big }: ChainOptions, run: OneRun): Promise<number | undefined> {
  const { link, mark, rounds, work, log } = run;
  const { PATH, HOME } = process.env;
  const crash =
    link?.kind === 'failpoint' ? { CRASH_AT: `${link.at}:${link.nth}:${link.victim}`, CRASH_MARK: mark } : {};
  const patterns = [
    '-r',
    'out/',
    '-r',
    'sub/**/*.dat',
    '-r',
    'run.log',
    '-r',
    'total.txt',
    '-k',
    'a.chk',
    '-k',
    'b.chk',
  ];
  const inputs = ['-i', 'total.txt', '-i', 'in.dat', '--from', path.join(dir, 'inputs')];
  const rules = [
    '--reclaim',
    'now',
    '--compression',
    big ? 'none' : 'zstd:1',
    '--index',
    '3',
    '--task-name',
    't',
  ];
  const args = ['--to', view.url, ...view.options, ...patterns, ...inputs, ...rules];
  const stderr = fs.openSync(run.stderr, 'a');
  const child = spawn(bin, [...args, '--', process.execPath, TASK, String(rounds), '150', log], {
    cwd: work,
    stdio: ['ignore', 'ignore', stderr],
    env: { PATH, HOME, ...view.env, ...crash, ...(big ? { BIG: '1' } : {}) },
  });
  fs.closeSync(stderr);
  const exited = once(child, 'exit');
  if (link?.kind === 'random') void killLater(child.pid ?? -1, link, mark, exited);
  const [code] = (await Promise.race([exited, tooLate()])) as [number | null];
  if (code === null && link?.victim === 'all') for (const pid of processesIn(work)) kill(pid);
  const deadline = Date.now() + BOUND_MS;
  while (processesIn(work).length > 0) {
    if (Date.now() > deadline) {
      for (const pid of processesIn(work)) kill(pid);
      throw new Error('a process goes on for ever');
    }
    await pause(20);
  }
  return code ?? undefined;
}

async function tooLate(): Promise<never> {
  await pause(BOUND_MS, undefined, { ref: false });
  throw new Error('the run did not end');
}

async function killLater(
  launcher: number,
  { afterMs, victim }: Extract<Death, { kind: 'random' }>,
  mark: string,
  exited: Promise<unknown>,
): Promise<void> {
  const over = await Promise.race([exited.then(() => true), pause(afterMs, false)]);
  if (over) return;
  const sidecar = sidecarOf(launcher);
  if (victim !== 'launcher' && sidecar === undefined) return;
  fs.writeFileSync(mark, '');
  // The sidecar first: the task is not to die before its eyes.
  if (victim !== 'launcher' && sidecar !== undefined) kill(sidecar);
  if (victim !== 'sidecar') kill(launcher);
}

/** Everything that a run starts stands in its work directory. */
function processesIn(work: string): readonly number[] {
  return fs.readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      return fs.readlinkSync(`/proc/${name}/cwd`) === work ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
}

function describe(link: Link): string {
  const what = link.kind === 'failpoint' ? `${link.at} (${link.nth})` : `${link.afterMs} ms`;
  return `${link.victim} at ${what}${link.fresh ? ', then a fresh directory' : ''}`;
}
