// One run of the task with capture beside it, and the deaths that are planned for it. Nothing of it is left when
// it is over.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Failpoint } from '../../../src/native/failpoint.ts';
import { sidecarOf } from '../../e2e/support.ts';
import type { View } from './view.ts';

const TASK = fileURLToPath(new URL('task.mjs', import.meta.url));
/** Nothing of a run may go on for longer. */
const BOUND_MS = 60_000;

/** When something dies, and what: at a step of the sidecar, or so long after the death before it. */
export type Death =
  | {
      readonly kind: 'failpoint';
      readonly at: Failpoint;
      readonly nth: number;
      readonly victim: 'sidecar' | 'all';
    }
  | { readonly kind: 'random'; readonly afterMs: number; readonly victim: 'sidecar' | 'launcher' | 'all' };

/** Deaths of one run, one after the other, all of one kind. The launcher replaces a sidecar that dies alone. */
export type Deaths = readonly Death[];

export interface RunOptions {
  /** The program to run. */
  readonly bin: string;
  readonly view: View;
  /** Where `in.dat` is. */
  readonly inputs: string;
  /** Results of several parts. */
  readonly big: boolean;
  readonly deaths: Deaths;
  /** With the number of a death: the file that says that it took place. */
  readonly mark: string;
  readonly rounds: number;
  readonly pauseMs: number;
  readonly work: string;
  readonly log: string;
  readonly stderr: string;
}

/** Those that took place. */
export function diedOf({ deaths, mark }: Pick<RunOptions, 'deaths' | 'mark'>): Deaths {
  return deaths.filter((_, n) => fs.existsSync(`${mark}-${n}`));
}

/** The exit status, or undefined when the launcher was killed. */
export async function runOnce(options: RunOptions): Promise<number | undefined> {
  const { deaths, work } = options;
  const child = start(options);
  const exited = once(child, 'exit');
  if (deaths[0]?.kind === 'random') void killLater(child.pid ?? -1, options, exited);
  const [code] = (await Promise.race([exited, tooLate()])) as [number | null];
  const isMachineGone = diedOf(options).at(-1)?.victim === 'all';
  if (code === null && isMachineGone) for (const pid of processesIn(work)) kill(pid);
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

function start({ bin, view, inputs, big, deaths, mark, rounds, pauseMs, work, log, stderr }: RunOptions) {
  const { PATH, HOME } = process.env;
  const results = ['out/', 'sub/**/*.dat', 'run.log', 'total.txt'].flatMap((name) => ['-r', name]);
  const checkpoints = ['-k', 'a.chk', '-k', 'b.chk'];
  const staged = ['-i', 'total.txt', '-i', 'in.dat', '--from', inputs];
  const patterns = [...results, ...checkpoints, ...staged];
  const identity = ['--index', '3', '--task-name', 't'];
  const rules = ['--reclaim', 'now', '--compression', big ? 'none' : 'zstd:1', ...identity];
  const task = [process.execPath, TASK, String(rounds), String(pauseMs), log];
  const said = fs.openSync(stderr, 'a');
  try {
    return spawn(bin, ['--to', view.url, ...view.options, ...patterns, ...rules, '--', ...task], {
      cwd: work,
      stdio: ['ignore', 'ignore', said],
      env: {
        PATH,
        HOME,
        ...view.env,
        CRASH_AT: failpointsOf(deaths),
        CRASH_MARK: mark,
        BIG: big ? '1' : '0',
      },
    });
  } finally {
    fs.closeSync(said);
  }
}

function failpointsOf(deaths: Deaths): string {
  const points = deaths.filter((death) => death.kind === 'failpoint');
  return points.map(({ at, nth, victim }) => `${at}:${nth}:${victim}`).join(',');
}

async function tooLate(): Promise<never> {
  await pause(BOUND_MS, undefined, { ref: false });
  throw new Error('the run did not end');
}

async function killLater(
  launcher: number,
  { deaths, mark }: RunOptions,
  exited: Promise<unknown>,
): Promise<void> {
  for (const [n, death] of deaths.entries()) {
    if (death.kind !== 'random') continue;
    const over = await Promise.race([exited.then(() => true), pause(death.afterMs, false)]);
    const sidecar = sidecarOf(launcher);
    // There may be none: it has just died, and the next one is not there yet.
    if (over || sidecar === undefined) return;
    fs.writeFileSync(`${mark}-${n}`, '');
    // The sidecar first: the task is not to die before its eyes.
    if (death.victim !== 'launcher') kill(sidecar);
    if (death.victim !== 'sidecar') kill(launcher);
  }
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
