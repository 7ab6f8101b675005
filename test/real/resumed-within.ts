// Ten deaths of a program in a row, everything around it killed at once, and after each the question how much of its
// work is lost. A program says `from STEP STATE` where it begins and `at STEP STATE` when STEP is saved.
import fs from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { killTree, openPlace, until, type Place, type Run } from '../e2e/support.ts';

const DEATHS = 10;
/** Most attempts live for one or two times the bound of ten seconds, some die soon after their start. */
const LIVES_MS = [
  [10_500, 21_000],
  [10_500, 21_000],
  [200, 4_000],
] as const;

export interface Program {
  readonly options: readonly string[];
  readonly task: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Below this directory, copied into each work directory. */
  readonly files: readonly string[];
}

interface Moment {
  readonly step: number;
  /** What the program says of its state: the same step must always be in the same one. */
  readonly state: string;
  readonly atMs: number;
}

interface Attempt {
  readonly moments: readonly Moment[];
  readonly diedAtMs: number;
}

export interface Resumed {
  /** As the last attempt left it. */
  readonly place: Place;
  /** By death: for how long the attempt had been beyond the step that the next one goes on from. */
  readonly lostMs: readonly number[];
}

/**
 * Kills the program ten times, then lets it end. Throws when an attempt goes on from a step that the one before has
 * never been at, or that was in another state then.
 */
export async function resumedAfterDeaths(program: Program, random: () => number): Promise<Resumed> {
  const place = openPlace({ below: '/dev/shm' });
  const lostMs: number[] = [];
  try {
    let before: Attempt = { moments: [], diedAtMs: NaN };
    for (let death = 0; death < DEATHS; death += 1) {
      const { run, moments } = start(place, program);
      await begun(run, moments);
      if (death > 0) lostMs.push(lostBetween(before, moments[0], run));
      const [least, most] = LIVES_MS[death % LIVES_MS.length] ?? [0, 0];
      await pause(least + random() * (most - least));
      const diedAtMs = performance.now();
      killTree(run.pid);
      await run.status;
      before = { moments, diedAtMs };
      place.freshWork();
    }
    const { run, moments } = start(place, program);
    await begun(run, moments);
    lostMs.push(lostBetween(before, moments[0], run));
    fs.writeFileSync(place.at('stop'), '');
    if ((await run.status) !== 0) throw new Error(`the last attempt failed:\n${run.stdout()}${run.stderr()}`);
    return { place, lostMs };
  } catch (error) {
    place.close();
    throw error;
  }
}

function start(place: Place, { options, task, files, env = {} }: Program): { run: Run; moments: Moment[] } {
  for (const name of files)
    fs.copyFileSync(path.join(import.meta.dirname, name), place.at(path.basename(name)));
  const run = place.run(options, task, { ...env, TMPDIR: place.dir });
  const moments: Moment[] = [];
  let rest = '';
  run.child.stdout?.on('data', (text: string) => {
    const lines = `${rest}${text}`.split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const [, step, state = ''] = /^(?:from|at) (\d+) (\S+)$/.exec(line) ?? [];
      if (step !== undefined) moments.push({ step: Number(step), state, atMs: performance.now() });
    }
  });
  return { run, moments };
}

async function begun(run: Run, moments: readonly Moment[]): Promise<void> {
  await Promise.race([
    until(() => moments.length > 0, 'the program begins', 60_000),
    run.status.then((status) => {
      throw new Error(`the attempt ended with ${status}:\n${run.stdout()}\n${run.stderr()}`);
    }),
  ]);
}

function lostBetween({ moments, diedAtMs }: Attempt, from: Moment | undefined, run: Run): number {
  // It died when the step was saved and not yet said.
  if ((from?.step ?? 0) > (moments.at(-1)?.step ?? Infinity)) return 0;
  const at = moments.findLastIndex(({ step }) => step === from?.step);
  const reached = moments[at];
  if (reached === undefined || reached.state !== from?.state) {
    const said = moments.map(({ step, state }) => `${step} ${state}`).join(', ');
    const problem = `goes on from ${from?.step} ${from?.state}, but the attempt before was at ${said}`;
    throw new Error(`${problem}\n${run.stderr()}`);
  }
  // The bound counts from the first close that no set covers: that of the next step.
  const beyond = moments[at + 1];
  return beyond === undefined ? 0 : Math.round(diedAtMs - beyond.atMs);
}
