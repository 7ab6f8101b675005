// `--workdir auto`: the task runs in another directory than the one in which the command line is written.
import { expect, it } from 'vitest';
import { withJobFile } from '../../src/cli/job/job-line.ts';
import { noFiles, parse } from './given.ts';

const JOB = `to: /s
workdir: auto
results: [r.dat]
array: 0-9
command: [./sim, '{index}']
`;
const outside = {
  ...noFiles,
  isFile: (file: string) => ['/w/sim', '/w/melt.py'].includes(file),
  readText: () => JOB,
};
const read = (argv: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  parse(argv, env, outside, { cwd: '/w', readJob: withJobFile });

it.each([
  ['a relative path is that of the current directory', ['./sim', 'x'], ['/w/sim', 'x'], []],
  ['a name is looked for in PATH', ['sim', './x'], ['sim', './x'], []],
  [
    'a file of the current directory is not there',
    ['python3', 'melt.py'],
    ['python3', 'melt.py'],
    ['melt.py'],
  ],
  ['an input is', ['python3', 'in.py'], ['python3', 'in.py'], []],
])('%s', (_, task, argv, missing) => {
  const [command, ...args] = argv;
  const found = read(['--to', 'store', '--workdir', 'auto', '-r', 'r.dat', '-i', 'in.py', '--', ...task]);
  expect(found).toMatchObject({
    kind: 'run',
    makesWorkdir: true,
    task: { command, args, env: { CAPTURED_SUBMIT_DIR: '/w' } },
    settings: { to: { url: 'file:///w/store' }, perishableStore: false, madeWorkdir: true },
    warnings: missing.map((one) => ({
      message: `the task will not find ${one}: it runs in a work directory of its own`,
      hint: expect.stringContaining(`write /w/${one}`),
    })),
  });
});

it.each([
  ['by its variable', ['--to', '/s', '--', './sim', '3'], { CAPTURE_WORKDIR: 'auto' }],
  ['in a job file', ['run', 'job.yaml', '--index', '3'], {}],
])('is understood %s, too', (_, argv, env) => {
  expect(read(argv, env)).toMatchObject({
    makesWorkdir: true,
    task: { command: '/w/sim', args: ['3'], env: { CAPTURED_SUBMIT_DIR: '/w' } },
  });
});

it('is a directory of that name with a path', () => {
  expect(read(['--to', '/s', '--workdir', './auto', '--', './sim'])).toMatchObject({
    makesWorkdir: false,
    settings: { workdir: '/w/auto' },
    task: { command: './sim' },
  });
});
