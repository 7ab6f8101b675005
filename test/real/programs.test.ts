// The examples of programs, as their README runs them, in real programs: everything is killed in the middle, and what the
// second run stores is what the program makes without capture and without a kill.
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { openPlace, type Place } from '../e2e/support.ts';
import { expectOutputOf } from '../examples/expected.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');

interface Example {
  /** The same computation without capture. */
  readonly reference: string;
  /** Results that must have the same bytes. */
  readonly same: readonly string[];
  /** Makes the example shorter. */
  readonly shorter?: string;
}

const EXAMPLES: Readonly<Record<string, Example>> = {
  gromacs: {
    shorter: "sed -i '/^nsteps/s/50000/8000/' md.mdp; sed -i 's/-cpt 0.1/-cpt 0.02/' run.sh",
    reference: 'gmx mdrun -s topol.tpr -nt 1 -reprod',
    same: ['confout.gro', 'traj_comp.xtc'],
  },
  lammps: {
    reference: 'lmp -in ../slurm/in.melt',
    same: ['final.data', 'frame.500.dump', 'frame.6000.dump'],
  },
  'python-numpy': { reference: './walk.py 40', same: ['final.npy'] },
  'python-hdf5': { reference: './series.py 40', same: ['final.h5'] },
  'python-sqlite': { reference: './steps.py 40', same: ['steps.txt'] },
  r: { reference: './bootstrap.R 40', same: ['means.csv'] },
  mpi: { reference: 'mpirun -n 2 ./sum.py 40', same: ['sum.txt'] },
  // The last digits of its energies depend on where it began: expected.txt has the others.
  'quantum-espresso': { reference: 'true', same: [] },
};

const places: Place[] = [];
afterAll(() => {
  for (const place of places) place.close();
});

/** The commands of the README: what comes before the run that is killed, both runs, and what looks at the results. */
function commandsOf(name: string) {
  const readme = fs.readFileSync(path.join(ROOT, 'examples', name, 'README.md'), 'utf8');
  const lines = (/^```sh\n(.*?)^```/ms.exec(readme)?.[1] ?? '').trim().split('\n');
  const killed = lines.findIndex((line) => line.includes('& sleep'));
  return {
    before: lines.slice(0, killed).join('\n'),
    killed: lines[killed] ?? '',
    again: lines[killed + 1] ?? '',
    after: lines.slice(killed + 2).join('\n'),
  };
}

describe.concurrent('the example', () => {
  it.each(Object.entries(EXAMPLES))(
    '%s resumes, killed in the middle, and ends with the results of an uninterrupted run',
    async (name, { reference, same, shorter = 'true' }) => {
      const place = openPlace({ below: '/dev/shm' });
      places.push(place);
      fs.cpSync(path.join(ROOT, 'examples'), place.work, { recursive: true });
      const at = async (dir: string, command: string): Promise<{ stdout: string; stderr: string }> => {
        const run = place.exec(['bash', '-c', `cd ${place.at(dir)} || exit; ${command}`], {
          // Debian's Python has its modules.
          PATH: `${path.join(ROOT, 'bin')}:/usr/bin:${process.env['PATH']}`,
          HOME: place.dir,
          TMPDIR: place.dir,
          OMP_NUM_THREADS: '1',
          OMPI_MCA_btl: 'self,vader',
          OMPI_MCA_plm: 'isolated',
          OMPI_ALLOW_RUN_AS_ROOT: '1',
          OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
        });
        expect(await run.status, run.stderr()).toBe(0);
        return { stdout: run.stdout(), stderr: run.stderr() };
      };
      const { before, killed, again, after } = commandsOf(name);
      await at(name, `${shorter}\n${before}`);
      fs.cpSync(place.at(name), place.at('reference'), { recursive: true });
      const stored = `${place.dir}/capture-store/${name}/.capture/*/0/*.checkpoint.json`;
      const interrupted = async (): Promise<void> => {
        await at(name, killed.replace(/sleep \d+/, `until ls ${stored}; do sleep 0.1; done 2> /dev/null`));
        const { stderr } = await at(name, again);
        expect(stderr).toMatch(/attempt 2 .*\n.*resumed from checkpoint 1-/);
        expectOutputOf(name, (await at(name, after)).stdout);
      };
      await Promise.all([at('reference', reference), interrupted()]);
      for (const file of same) {
        const [one, other] = [`${name}/results/0/${file}`, `reference/${file}`].map((each) =>
          fs.readFileSync(place.at(each)),
        );
        expect(other && one?.equals(other), `${file} equals the reference`).toBe(true);
      }
    },
  );
});
