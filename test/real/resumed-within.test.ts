// Real programs that close a checkpoint several times a second and never rest: however they name their files, and
// whatever else they keep open, a death of everything costs at most the bound of docs/semantics/checkpoints.md.
import fs from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import { type Place } from '../e2e/support.ts';
import { resumedAfterDeaths, type Program } from './resumed-within.ts';

/**
 * docs/semantics/checkpoints.md: no set is older than ten seconds while the task writes. To hash, compress and send one may
 * take as long again where five programs share two cores: how long it takes is measured elsewhere.
 */
const BOUND_MS = 20_000;
const LIMIT_MS = 400_000;
const SEED = Date.now() % 2 ** 31;

function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** LAMMPS with the restart files `names`, of which `patterns` are the checkpoints. */
function lammps(
  names: string,
  pattern: string,
  every: number,
  pause: string,
  more: Partial<Program> = {},
): Program {
  const { options = [], env = {} } = more;
  return {
    options: ['--index', '3', '-k', pattern, '-r', 'final.data', ...options],
    // The shell finds the files, as a user's script does.
    task: ['sh', '-c', `exec ./steps.sh ${pattern}`],
    env: { NAMES: names, EVERY: `${every}`, PAUSE: pause, CELLS: '5', TRAJ: 'no', ...env },
    files: ['lammps/in.steps', 'lammps/steps.sh', 'lammps/cut-back.sh'],
  };
}

const TRAJECTORY = 'traj.lammpstrj';
const PROGRAMS = {
  'LAMMPS with two restart files in turn': lammps('a.rst b.rst', '[ab].rst', 200, '0.3'),
  // LAMMPS waits in a child, whose end casts doubt on the close that follows: of names that are new each time nothing
  // but 10 s of life proves such a set. Larger, it needs no wait.
  'LAMMPS with numbered restart files': lammps('melt.*.rst', 'melt.*.rst', 100, '0', {
    env: { CELLS: '10' },
  }),
  'LAMMPS with one restart file, rewritten many times a second': lammps(
    'melt.chk melt.chk',
    'melt.chk',
    20,
    '0.02',
  ),
  'a program with a large database of SQLite in WAL mode': {
    options: ['--index', '3', '-k', 'sim.db*'],
    task: ['./steps.py'],
    files: ['sqlite/steps.py'],
  },
} satisfies Record<string, Program>;

const places: Place[] = [];
afterAll(() => {
  for (const place of places) place.close();
});

// At once: they mostly wait, and so the whole takes two minutes.
describe.concurrent('killed ten times, each time resumed from a step at most the bound behind', () => {
  it.each(Object.entries(PROGRAMS))(
    '%s',
    async (_, program) => {
      const { place, lostMs } = await resumedAfterDeaths(program, numbersFrom(SEED));
      places.push(place);
      expect(Math.max(...lostMs), `ms lost at each death: ${lostMs.join(' ')}`).toBeLessThanOrEqual(BOUND_MS);
    },
    LIMIT_MS,
  );

  it(
    'LAMMPS that keeps a trajectory open, a result only, and each of its frames is there once in the end',
    async () => {
      const options = ['-r', TRAJECTORY, '--keep'];
      const program = lammps('melt.chk melt.chk', 'melt.chk', 200, '0.3', { options, env: { TRAJ: 'yes' } });
      const { place, lostMs } = await resumedAfterDeaths(program, numbersFrom(SEED + 1));
      places.push(place);
      expect(Math.max(...lostMs), `ms lost at each death: ${lostMs.join(' ')}`).toBeLessThanOrEqual(BOUND_MS);
      const frames = stepsOf(fs.readFileSync(place.at(TRAJECTORY), 'utf8'));
      expect(frames.length).toBeGreaterThan(10);
      expect(frames).toEqual(frames.map((_, at) => at * 200));
      const stored = place.keys().find((key) => key.startsWith(`${TRAJECTORY}.3`)) ?? '';
      expect(place.text(stored)).toBe(fs.readFileSync(place.at(TRAJECTORY), 'utf8'));
    },
    LIMIT_MS,
  );
});

/** The steps of the frames in a dump, each of which must have all its atoms. */
function stepsOf(dump: string): readonly number[] {
  return dump
    .split(/^ITEM: TIMESTEP\n/m)
    .slice(1)
    .map((frame) => {
      const lines = frame.trimEnd().split('\n');
      expect(lines).toHaveLength(8 + Number(lines[2]));
      return Number(lines[0]);
    });
}
