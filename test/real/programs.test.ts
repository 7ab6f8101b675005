// The examples of programs, as their README runs them, in real programs: everything is killed in the middle, and what the
// second run stores is what the program makes without capture and without a kill.
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { differAfterKill, KILLED_AT_SUM, type Example } from '../examples/killed.ts';

const EXAMPLES: Readonly<Record<string, Example>> = {
  gromacs: {
    shorter: "sed -i '/^nsteps/s/100000/5000/' md.mdp; sed -i 's/-cpt 0.1/-cpt 0.01/' run.sh",
    reference: 'gmx mdrun -s topol.tpr -nt 1 -reprod',
    same: ['confout.gro', 'traj_comp.xtc'],
  },
  lammps: {
    shorter: "sed -i 's/-in in.melt/& -var cells 6/' run.sh",
    reference: 'lmp -in ../slurm/in.melt -var cells 6',
    same: ['final.data', 'frame.500.dump', 'frame.6000.dump'],
  },
  'python-numpy': { reference: './walk.py 40', same: ['final.npy'] },
  'python-hdf5': { reference: './series.py 40', same: ['final.h5'] },
  'python-sqlite': { reference: './steps.py 40', same: ['steps.txt'] },
  r: { reference: './bootstrap.R 40', same: ['means.csv'] },
  mpi: { reference: 'mpirun -n 2 ./sum.py 40', same: ['sum.txt'] },
  // The last digits of its energies depend on where it began: expected.txt has the others.
  'quantum-espresso': { reference: 'true', same: [] },
  pytorch: { reference: './train.py 40', same: ['model.txt'] },
  snakemake: {
    reference: './snake.sh',
    same: ['results/total.txt'],
    killedAt: KILLED_AT_SUM,
    resumes: /^sum +[1-5] /m,
  },
};

/** These take a minute or more to install, so run.sh does not: their examples are run where they are. */
const WHERE_INSTALLED: Readonly<Record<string, string>> = {
  r: 'command -v Rscript',
  'quantum-espresso': 'command -v pw.x',
  pytorch: "/usr/bin/python3 -c 'import torch'",
  snakemake: 'command -v snakemake',
};

const isHere = (name: string): boolean =>
  spawnSync('sh', ['-c', WHERE_INSTALLED[name] ?? 'true'], { stdio: 'ignore' }).status === 0;
const LACKING = Object.keys(WHERE_INSTALLED).filter((name) => !isHere(name));
if (LACKING.length > 0) console.log(`not installed, so their examples are not run: ${LACKING.join(', ')}`);

/** How a program says that it was built for another processor: it cannot be run here, with capture or without. */
const FOREIGN_PROCESSOR = 'not supported by the current hardware';

describe.concurrent('the example', () => {
  it.for(Object.entries(EXAMPLES).filter(([name]) => !LACKING.includes(name)))(
    '%s resumes, killed in the middle, and ends with the results of an uninterrupted run',
    async ([name, example], { skip }) => {
      const differing = differAfterKill(name, example);
      await differing.catch((error: unknown) =>
        skip(String(error).includes(FOREIGN_PROCESSOR), FOREIGN_PROCESSOR),
      );
      expect(await differing).toEqual([]);
    },
  );
});
