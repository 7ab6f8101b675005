import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { taskNameOf } from '../../../src/cli/options/task-name.ts';
import { isTaskName } from '../../../src/model/format/task-name.ts';

describe('the task name', () => {
  it.each([
    ['./simulate --steps 5', 'simulate'],
    ['/opt/bin/lmp -in in.lj', 'lmp'],
    ['python fit.py --x', 'fit.py'],
    ['python3.11 -u -W ignore src/fit.py', 'fit.py'],
    ['python -m package.module x', 'package.module'],
    ['python -c print(1)', 'python'],
    ['sh run.sh a', 'run.sh'],
    ['bash -eu -o pipefail run.sh', 'run.sh'],
    ['bash -lc cd_x', 'bash'],
    ['sh -c ./run', 'sh'],
    ['bash', 'bash'],
    ['Rscript --vanilla model.R 3', 'model.R'],
    ['perl -Ilib/x -w go.pl', 'go.pl'],
    ['julia -t 4 --project=. sim.jl', 'sim.jl'],
    ['java -Xmx1g -cp a.jar -jar tool.jar x', 'tool.jar'],
    ['srun -n 4 --mpi=pmix ./task', 'task'],
    ['srun --ntasks 4 python3 -u a/fit.py', 'fit.py'],
    ['mpirun -np 4 --mca btl tcp --oversubscribe lmp -in x', 'lmp'],
    ['mpiexec.hydra -genv A 1 ./solver', 'solver'],
    ['apptainer exec --bind /data image.sif python3 fit.py', 'fit.py'],
    ['singularity run image.sif', 'singularity'],
    ['env -- A=1 ./task', 'task'],
    ['env -u HOME A=1 ./task', 'task'],
    ['timeout -k 5 10m nice -n 5 stdbuf -oL ./task', 'task'],
    ['/usr/bin/time -v -o t.txt ./task', 'task'],
    ['taskset 0x3 ./task', 'task'],
    ['conda run -n env python fit.py', 'fit.py'],
    ['conda install x', 'conda'],
    ['nohup -- ./task', 'task'],
    ['./my:task', 'my_task'],
    ['./größe', 'gr__e'],
    ['/', 'task'],
    ['..', 'task'],
  ])('of %j is %j', (command, name) => {
    expect(taskNameOf(command.split(' '))).toBe(name);
  });

  it('is one that a key takes, whatever the command', () => {
    const word = fc.oneof(
      fc.string(),
      fc.constantFrom('env', 'python', 'srun', '-c', '--', '-m', 'timeout', 'exec', 'A=1'),
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 6 }), (argv) => {
        expect(taskNameOf(argv)).toSatisfy(isTaskName);
      }),
    );
  });
});
