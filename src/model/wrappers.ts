// Programs that only run another one. For each: which part of its command line comes before the script or program that
// the user thinks of as the task. Data; cli/options/task-name.ts walks over it.

export interface Wrapper {
  /** Options, and how many separate arguments each takes as values. All other options take none. */
  readonly values?: Readonly<Record<string, number>>;
  /** Options whose value is code, not a file. Then the wrapper itself is the task. */
  readonly code?: readonly string[];
  /** Options whose value is the program's name: `python -m module`. */
  readonly named?: readonly string[];
  /** Arguments between the options and the program: `timeout 10s ./task`. */
  readonly operands?: number;
  /** Words that must come first, before options: `apptainer exec`. */
  readonly commands?: readonly string[];
  /** `NAME=value` may come before the program. */
  readonly assignments?: boolean;
}

const one = (...options: readonly string[]): Record<string, number> =>
  Object.fromEntries(options.map((option) => [option, 1]));

const SHELL: Wrapper = { values: one('-o', '+o', '-O', '+O', '--rcfile', '--init-file'), code: ['-c'] };
const MPI: Wrapper = {
  values: {
    ...one(
      '-n',
      '-np',
      '--np',
      '--n',
      '-c',
      '-N',
      '-H',
      '-host',
      '--host',
      '-hosts',
      '-hostfile',
      '--hostfile',
    ),
    ...one('-machinefile', '--machinefile', '-f', '-ppn', '-perhost', '-wdir', '--wdir', '-x', '-rf'),
    ...one('--map-by', '-map-by', '--bind-to', '-bind-to', '--rank-by', '-rank-by', '--prefix', '-iface'),
    '--mca': 2,
    '-mca': 2,
    '--prtemca': 2,
    '--pmixmca': 2,
    '-genv': 2,
    '-env': 2,
  },
};
const SRUN: Wrapper = {
  values: {
    ...one(
      '-n',
      '-N',
      '-c',
      '-p',
      '-t',
      '-J',
      '-A',
      '-w',
      '-x',
      '-o',
      '-e',
      '-i',
      '-D',
      '-C',
      '-m',
      '-q',
      '-d',
    ),
    ...one(
      '--ntasks',
      '--nodes',
      '--cpus-per-task',
      '--ntasks-per-node',
      '--partition',
      '--time',
      '--job-name',
    ),
    ...one(
      '--account',
      '--nodelist',
      '--exclude',
      '--output',
      '--error',
      '--input',
      '--chdir',
      '--constraint',
    ),
    ...one('--mem', '--mem-per-cpu', '--gres', '--gpus', '--gpus-per-task', '--cpu-bind', '--mpi', '--jobid'),
    ...one('--export', '--qos', '--distribution', '--reservation', '--tres-per-task', '--hint'),
  },
};
const CONTAINER: Wrapper = {
  commands: ['exec', 'run'],
  // The image.
  operands: 1,
  values: {
    ...one('-B', '--bind', '-H', '--home', '-W', '--workdir', '--pwd', '--cwd', '--env', '--env-file', '-S'),
    ...one(
      '--scratch',
      '-o',
      '--overlay',
      '--mount',
      '--network',
      '--apply-cgroups',
      '--app',
      '--dns',
      '--hostname',
    ),
  },
};
const PERL: Wrapper = { code: ['-e', '-E'], values: one('-I', '-x') };

/** By base name; `python3.11` is looked up as `python`. */
export const WRAPPERS: ReadonlyMap<string, Wrapper> = new Map<string, Wrapper>([
  ...['sh', 'bash', 'dash', 'ash', 'zsh', 'ksh', 'csh', 'tcsh', 'fish'].map((name) => [name, SHELL] as const),
  ...['mpirun', 'mpiexec', 'mpiexec.hydra', 'orterun', 'prterun'].map((name) => [name, MPI] as const),
  ...['apptainer', 'singularity'].map((name) => [name, CONTAINER] as const),
  ['srun', SRUN],
  ['python', { code: ['-c'], named: ['-m'], values: one('-W', '-X', '-Q') }],
  ['Rscript', { code: ['-e'] }],
  ['perl', PERL],
  ['ruby', PERL],
  [
    'julia',
    { code: ['-e', '-E', '--eval', '--print'], values: one('-p', '-t', '-J', '-C', '-L', '-O', '-H') },
  ],
  ['node', { code: ['-e', '--eval', '-p', '--print'], values: one('-r', '--require', '--import') }],
  ['java', { named: ['-jar'], values: one('-cp', '-classpath', '--class-path', '-p', '--module-path') }],
  ['lua', { code: ['-e'], values: one('-l') }],
  ['octave', { code: ['--eval'], values: one('-p', '--path') }],
  ['env', { assignments: true, values: one('-u', '--unset', '-C', '--chdir') }],
  ['exec', { values: one('-a') }],
  ['time', { values: one('-f', '--format', '-o', '--output') }],
  ['nice', { values: one('-n', '--adjustment') }],
  ['ionice', { values: one('-c', '--class', '-n', '--classdata') }],
  ['chrt', { operands: 1 }],
  ['taskset', { operands: 1 }],
  [
    'numactl',
    { values: one('-N', '-m', '-C', '-i', '--cpunodebind', '--membind', '--physcpubind', '--interleave') },
  ],
  ['timeout', { operands: 1, values: one('-k', '--kill-after', '-s', '--signal') }],
  ['stdbuf', { values: one('-i', '-o', '-e', '--input', '--output', '--error') }],
  ['nohup', {}],
  ['setsid', {}],
  ['unbuffer', {}],
  ['catchsegv', {}],
  ['xvfb-run', { values: one('-e', '-f', '-n', '-p', '-s', '--server-args', '--server-num') }],
  ['valgrind', {}],
  ['strace', { values: one('-e', '-o', '-p', '-s', '-u', '-E') }],
  ['conda', { commands: ['run'], values: one('-n', '--name', '-p', '--prefix', '--cwd') }],
  ['mamba', { commands: ['run'], values: one('-n', '--name', '-p', '--prefix', '--cwd') }],
  ['micromamba', { commands: ['run'], values: one('-n', '--name', '-p', '--prefix', '--cwd', '-r') }],
  ['uv', { commands: ['run'], values: one('--with', '--python', '-p', '--project', '--directory') }],
  ['poetry', { commands: ['run'] }],
  ['pixi', { commands: ['run'], values: one('-e', '--environment') }],
]);
