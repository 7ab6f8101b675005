import { describe, expect, it } from 'vitest';
import { withJobFile } from '../../src/cli/job/job-line.ts';
import { OF_MANY } from '../../src/cli/job/keys.ts';
import { optionsOf } from '../../src/cli/options.ts';
import { type Parsed, readLine } from '../../src/cli/read-line.ts';
import { ARRAY_SPEC, type ArrayRequest, withoutOwn } from '../../src/many/line.ts';
import { ALL_OPTIONS, OWN_OPTIONS, REFUSED_OPTIONS } from '../../src/many/options.ts';
import { indicesOf } from '../../src/model/index-set.ts';
import type { Outside } from '../../src/cli/options/outside.ts';
import { noFiles } from '../cli/given.ts';

const FILES: Readonly<Record<string, string>> = {
  '/w/commands.txt': './one a\n\n# two\n./three "$HOME"\n',
  '/w/runs.csv': 'seed,name\n7,"a b"\n8,c\n',
  '/w/job.yaml': `array: 0-9
to: store
namespace: ada
results: [r.dat, 's*']
retries: 3
queue: redis://host/lab
workdir: elsewhere
command: sim --name "{index}" > out
`,
  '/w/table.yaml': 'tasks: runs.csv\nto: /store\nresults: r\ncommand: [./sim, "{seed}"]\n',
  '/w/wrong.yaml': 'array: 0-9\nto: /store\nretries: many\nresults: r\ncommand: sim {idex}\n',
};
const PROGRAMS = new Set(['/w/sim', '/w/melt.py']);
const outside = {
  ...noFiles,
  readText: (file: string): string => FILES[file] ?? noFiles.readText(file),
  isFile: (file: string): boolean => file in FILES || PROGRAMS.has(file),
};
const parse = (
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  files: Outside = outside,
): Parsed<ArrayRequest> => readLine(ARRAY_SPEC, args, { env, cwd: '/w', outside: files }, withJobFile);
const asked = (args: readonly string[], env?: NodeJS.ProcessEnv): ArrayRequest => {
  const found = parse(args, env);
  if (found.kind !== 'go') throw new Error(JSON.stringify(found));
  return found.request;
};
const TO = ['--to', '/store', '-r', 'r.dat'];

describe('the command line of capture array', () => {
  it('runs one command for each index, named by its path from here', () => {
    const { tasks, taskName } = asked([
      '--array',
      '3-5',
      ...TO,
      '--',
      './sim',
      '--seed={index}',
      '{{index}}',
    ]);
    expect(tasks.commandOf(4)).toEqual({ argv: ['/w/sim', '--seed=4', '{index}'], env: {} });
    expect(taskName).toBe('sim');
  });

  it.each([
    ['./melt.py', './nope.sh', []],
    ['/w/sim', 'a file that is nowhere', []],
    ['python3', 'melt.py', ['melt.py']],
    ['python3', './melt.py', ['./melt.py']],
    ['python3', '/w/melt.py', []],
    ['python3', 'r.dat', []],
    ['python3', '--melt.py', []],
  ])('%s %s: of a file that the tasks will not find, it says so', (program, word, named) => {
    const found = parse(['--array', '0', ...TO, '-i', 'runs.csv', '--', program, word, 'runs.csv']);
    const said = found.kind === 'go' ? found.warnings.map(({ message }) => message) : found;
    expect(said).toEqual(named.map((one) => expect.stringContaining(`will not find ${one}: `)));
  });

  it('takes one shell command a line of --tasks, line n is index n', () => {
    const { tasks, taskName } = asked(['--tasks', 'commands.txt', ...TO]);
    expect([...indicesOf(tasks.indices)]).toEqual([0, 3]);
    expect(tasks.commandOf(3).argv).toEqual(['/bin/sh', '-c', './three "$HOME"']);
    expect(taskName).toBe('task');
  });

  it('makes placeholders and variables of the columns of a table', () => {
    const { tasks } = asked([
      '--tasks',
      'runs.csv',
      '--array',
      '0',
      ...TO,
      '--',
      'sim',
      '{seed}',
      '{index}',
      '{name}',
    ]);
    expect(tasks.commandOf(0)).toEqual({
      argv: ['sim', '7', '0', 'a b'],
      env: { seed: '7', name: 'a b' },
    });
    expect(tasks.indices.ranges).toEqual([{ first: 0, last: 0, step: 1 }]);
  });

  it('passes the options of a run on as they were given, and keeps those of the array', () => {
    const words = [
      '--array',
      '0',
      '--jobs',
      '3',
      '-r',
      '@list',
      '-r',
      'b*',
      '--keep',
      '--no-restore',
      '--notify',
      'x',
    ];
    const outsideToo = { ...outside, readText: () => 'r.dat\n' };
    const found = parse([...words, '--to', 'store', '--task-name=t', '--', 'true'], {}, outsideToo);
    expect(found).toMatchObject({
      kind: 'go',
      request: {
        jobs: 3,
        taskName: 't',
        passed: ['--results=@list', '--results=b*', '--to=store', '--keep', '--no-restore', '--log-output'],
        settings: { notify: { kind: 'command', command: 'x' } },
      },
    });
  });

  it('reads variables of its own options, and hides them from the runs', () => {
    const env = { CAPTURE_JOBS: '2', CAPTURE_TO: '/store', CAPTURE_RESULTS: 'r', CAPTURE_INDEX: '9' };
    expect(asked(['--array', '0', '--', 'true'], env)).toMatchObject({ jobs: 2 });
    expect(withoutOwn({ ...env, CAPTURE_FDS: '7', PATH: '/bin' })).toEqual({
      CAPTURE_TO: '/store',
      CAPTURE_RESULTS: 'r',
      PATH: '/bin',
    });
  });

  it('may be a job file, with what it says to other commands left out', () => {
    const { tasks, taskName, retries, settings, passed } = asked(['job.yaml', '--jobs', '2']);
    expect(tasks.indices.ranges).toEqual([{ first: 0, last: 9, step: 1 }]);
    expect(tasks.commandOf(4).argv.slice(1)).toEqual(['-c', `sim --name ""'4'"" > out`]);
    expect(taskName).toBe('task');
    expect(retries).toBe(3);
    expect(settings.to.url).toBe('file:///w/store/ada');
    expect(passed).toEqual([
      '--results=r.dat',
      '--results=s*',
      '--to=store',
      '--namespace=ada',
      '--log-output',
    ]);
  });

  it('wins over its job file: options list for list, and the command', () => {
    const { tasks, retries, passed } = asked([
      'job.yaml',
      '--retries=1',
      '-r',
      'other',
      '--',
      'true',
      '{index}',
    ]);
    expect(retries).toBe(1);
    expect(passed).toContain('--results=other');
    expect(passed).not.toContain('--results=r.dat');
    expect(tasks.commandOf(4).argv).toEqual(['true', '4']);
    expect(asked(['table.yaml', '--array', '1']).tasks.commandOf(1).argv).toEqual(['/w/sim', '8']);
  });

  it('tells a mistake of the job file with its line', () => {
    const found = parse(['wrong.yaml', '--nice', '20']);
    expect(found.kind === 'mistakes' ? found.mistakes.map(({ message }) => message) : []).toEqual([
      "--nice '20': not a whole number, 1 to 19",
      "'wrong.yaml', line 3: --retries 'many': not a whole number, 0 to 1000",
      expect.stringContaining("'wrong.yaml', line 5: {idex} in the command is no placeholder"),
    ]);
  });

  it('knows all its own keys of job files', () => {
    const own = OWN_OPTIONS.filter(({ name }) => !optionsOf('run').some((one) => one.name === name));
    for (const { name, kind } of own) expect(OF_MANY).toContainEqual({ name, kind });
  });

  it.each([
    [['--array', '0', '--', 'true'], 'no --to is given'],
    [[...TO, '--', 'true'], 'no array is given'],
    [['--array', '0', ...TO], 'no task is given'],
    [['--array', '5-3', ...TO, '--', 'true'], "--array '5-3': not a set of indices"],
    [['--array', '0', ...TO, '--', 'sim', '{sed}'], '{sed} in the command is no placeholder'],
    [['--array', '0', ...TO, '--workdir', '/x', '--', 'true'], 'capture array takes no --workdir'],
    [['--array', '0', ...TO, '--metrics=9464', '--', 'true'], 'capture array takes no --metrics'],
    [['--array', '0', ...TO, '--halt', 'later', '--', 'true'], "--halt 'later': not when to halt"],
    [['--array', '0', ...TO, '--jobs', 'many', '--', 'true'], "--jobs 'many': neither auto nor a number"],
    [['--array', '0', ...TO, '--nice', '20', '--', 'true'], "--nice '20': not a whole number, 1 to 19"],
    [['--array', '0', ...TO, '--retires', '2', '--', 'true'], 'unknown option --retires'],
    [['--array', '0', ...TO, '--grace', '5', '--', 'true'], "--grace '5': not a duration"],
    [
      ['--array', '0', ...TO, '--', './nope.sh'],
      "program './nope.sh' does not exist: there is no file /w/nope.sh",
    ],
    [['--array', '0', ...TO, '--', '/w/nope.sh'], "program '/w/nope.sh' does not exist"],
    [['--tasks', 'none.txt', ...TO], "--tasks 'none.txt': cannot read it"],
    [['--tasks', 'commands.txt', ...TO, '--', 'true'], 'each line of commands.txt is a command'],
    [['--tasks', 'runs.csv', ...TO], 'no task is given'],
    [['--tasks', 'runs.csv', '--array', '7-9', ...TO, '--', 'true'], 'runs.csv has no task of --array'],
    [['--array', '0', ...TO, '--no-logs', '--log-output', '--', 'true'], '--log-output and --no-logs'],
    [['--array', '0', ...TO, '--no-logs', '--log-output-limit=9MiB', '--', 'true'], 'without --log-output'],
    [['--array', '0', ...TO, 'job.yaml', '--', 'true'], "'job.yaml' stands where an option should"],
    [['--jobs', '2', 'job.yaml'], "'job.yaml' stands where an option should"],
    [['none.yaml', ...TO, '--', 'true'], "job file 'none.yaml': cannot read it"],
    [['0-9', '--array', '0', ...TO, '--', 'true'], "'0-9' stands between the options and the task"],
  ])('%j: %s', (args, message) => {
    const found = parse(args);
    expect(found.kind).toBe('mistakes');
    const mistakes = found.kind === 'mistakes' ? found.mistakes : [];
    expect(mistakes.map((one) => one.message)).toEqual([expect.stringContaining(message)]);
    expect(mistakes[0]?.hint).toBeTruthy();
  });

  it.each([
    [['task', ...TO], 'the task stands behind --: capture array --array 0-99 -- ./task {index}'],
    [
      ['--seed', ...TO, '--', 'true'],
      'capture array --help; the options of the task stand behind its name, after --',
    ],
    [['--indx', '3', ...TO], '--index; capture array --help'],
  ])('%j: try %s', (args, hint) => {
    expect(parse(args)).toMatchObject({
      mistakes: expect.arrayContaining([expect.objectContaining({ hint })]),
    });
  });

  it('takes or refuses each option of a run', () => {
    const known = [...ALL_OPTIONS, ...REFUSED_OPTIONS].map(({ name }) => name);
    expect(optionsOf('run').filter(({ name }) => !known.includes(name))).toEqual([]);
    expect(new Set(known).size).toBe(known.length);
  });
});

it('has a help with all its options', () => {
  const found = parse(['--help']);
  for (const { flags } of ALL_OPTIONS) expect('text' in found && found.text).toContain(flags);
});
