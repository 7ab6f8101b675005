// The command lines of `capture submit`, `capture worker` and `capture queue`: what is wrong is said before anybody is asked.
import { describe, expect, it } from 'vitest';
import type { CommandSpec } from '../../../src/cli/command.ts';
import { withJobFile } from '../../../src/cli/job/job-line.ts';
import { realOutside } from '../../../src/cli/options/outside.ts';
import type { Caller } from '../../../src/cli/options/values.ts';
import { findCommand, readLine } from '../../../src/cli/read-line.ts';
import { drainCommand, retryCommand } from '../../../src/many/queue/acts.ts';
import { QUEUE_COMMANDS } from '../../../src/many/queue/commands.ts';
import { pauseCommand } from '../../../src/many/queue/pause.ts';
import { statusCommand } from '../../../src/many/queue/status.ts';
import { submitCommand } from '../../../src/many/queue/submit.ts';
import { workerCommand } from '../../../src/many/queue/worker.ts';

const QUEUE = '--queue=redis://127.0.0.1:6379/lab';
const SUBMIT = [QUEUE, '--to=/shared/store', '-r', 'r.dat'];

function mistakes(
  command: CommandSpec,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): readonly string[] {
  const line = readLine(command, args, { env, cwd: '/tmp', outside: realOutside }, withJobFile);
  return line.kind === 'mistakes' ? line.mistakes.map(({ message, hint }) => `${message}; try: ${hint}`) : [];
}

describe('capture submit', () => {
  it('takes the options of an array, and those of the queue', () => {
    const args = ['--array=0-9', '--needs=gpu,openfoam', '--after=mesh', '--memory=2GiB', '--priority=3'];
    expect(mistakes(submitCommand, [...SUBMIT, ...args, '--', '/opt/only/workers/have', '{index}'])).toEqual(
      [],
    );
    // It brings the program.
    const prepared = ['--array=0', '--prepare=tar xf sim.tar', '--', './sim'];
    expect(mistakes(submitCommand, [...SUBMIT, ...prepared])).toEqual([]);
    expect(
      mistakes(submitCommand, ['--array=0', '--to=/x', '--', 'true'], { CAPTURE_QUEUE: 'redis://h/q' }),
    ).toEqual([]);
  });

  it.each([
    ['no queue', ['--to=/x', '--array=0'], /no queue is named/],
    ['no store', [QUEUE, '--array=0'], /no --to is given/],
    ['no array', SUBMIT, /no array is given/],
    ['an index in no range', [...SUBMIT, '--array=9-0'], /--array/],
    ['what is no capability', [...SUBMIT, '--array=0', '--needs=g pu'], /--needs .*names with commas/],
    ['a name that stands in no key', [...SUBMIT, '--array=0', '--name=a:b'], /--name .*no name/],
    ['a priority that is no number', [...SUBMIT, '--array=0', '--priority=high'], /--priority/],
    ['--again without a name', [...SUBMIT, '--array=0', '--again'], /--again needs the name/],
    ['an option of a worker', [...SUBMIT, '--array=0', '--jobs=3'], /unknown option --jobs/],
    ['an option of one run', [...SUBMIT, '--array=0', '--index=3'], /capture submit takes no --index/],
    ['a word', [...SUBMIT, '--array=0', 'word'], /'word' stands between the options and the task/],
    [
      'a job file that is not the first word',
      [...SUBMIT, 'job.yaml'],
      /a job file comes first: capture submit job/,
    ],
    [
      'a program that is not here',
      [...SUBMIT, '--array=0', '--', './no'],
      /'.\/no' does not exist.*\/tmp\/no/,
    ],
    ['an unknown placeholder', [...SUBMIT, '--array=0', '--', 'echo', '{indx}'], /\{indx\}.*\{index\}/],
  ] as const)('refuses %s', (_, args, said) => {
    const task = args.some((word) => word === '--') ? [] : ['--', 'true'];
    expect(mistakes(submitCommand, [...args, ...task]).join('\n')).toMatch(said);
  });
});

describe('capture submit job.yaml', () => {
  const JOB = `queue: redis://127.0.0.1:6379/lab
to: /shared/store
array: 0-9
needs: gpu
jobs: 4
command: sim --seed {index} > out
`;
  const withJob = (text: string): Caller => ({
    env: {},
    cwd: '/tmp',
    outside: { ...realOutside, readText: () => text },
  });
  const refusals = (text: string, ...args: readonly string[]): string => {
    const line = readLine(submitCommand, ['job.yaml', ...args], withJob(text), withJobFile);
    return line.kind === 'mistakes'
      ? line.mistakes.map(({ message, hint }) => `${message}; try: ${hint}`).join('\n')
      : line.kind;
  };

  it('reads what concerns the tasks, and the line wins', () => {
    expect(refusals(JOB)).toBe('go');
    expect(refusals(JOB, '--queue=amqp://h/q')).toMatch(/^--queue begins with none of/);
    expect(refusals(JOB, '--', 'other', '{index}')).toBe('go');
  });

  it('tells a mistake in it with its line', () => {
    expect(refusals(`${JOB}prioritie: 3\n`)).toMatch(
      /'job.yaml', line 7: 'prioritie' is not a key of a job file; try: priority/,
    );
    expect(refusals(JOB.replace('gpu', 'g pu'))).toMatch(/'job.yaml', line 4: --needs .*; try: needs: gpu/);
    expect(refusals(JOB.replace('{index}', '{indx}'))).toMatch(/'job.yaml', line 6: \{indx\}/);
  });

  it('is nothing that the other commands read', () => {
    const line = readLine(statusCommand, ['job.yaml', QUEUE], withJob(JOB), withJobFile);
    expect(line.kind).toBe('go');
  });
});

describe('capture worker', () => {
  it('takes what a machine gives', () => {
    const args = [
      QUEUE,
      '--has=gpu',
      '--jobs=2',
      '--nice=10',
      '--when-idle=15',
      '--idle-timeout=10m',
      '--notice=none',
    ];
    expect(mistakes(workerCommand, args)).toEqual([]);
  });

  it.each([
    ['a task', [QUEUE, '--', 'true'], /runs no task, and takes no 'true'/],
    ['a queue of another kind', ['--queue=amqp://h/q'], /begins with none of/],
    ['minutes that are none', [QUEUE, '--when-idle=soon'], /no number of minutes/],
    ['a lock that is too short', [QUEUE, '--lost-after=1s'], /too short/],
    ['another notice', [QUEUE, '--notice=smoke'], /--notice/],
  ] as const)('refuses %s', (_, args, said) => {
    expect(mistakes(workerCommand, args).join('\n')).toMatch(said);
  });
});

describe('the others', () => {
  it('take what they act on, and nothing more', () => {
    expect(mistakes(retryCommand, ['melt', QUEUE])).toEqual([]);
    expect(mistakes(retryCommand, [QUEUE])).toEqual([
      'no submission is named; try: capture queue retry melt-7 --queue redis://head:6379/lab',
    ]);
    expect(mistakes(drainCommand, ['a', 'b', QUEUE]).join()).toContain("takes no 'b'");
    expect(mistakes(statusCommand, ['melt', QUEUE, '--json'])).toEqual([]);
    expect(mistakes(pauseCommand, ['--for=2h', '--how=stop'])).toEqual([]);
    expect(mistakes(pauseCommand, ['--how=sleep']).join()).toContain('not one of checkpoint, stop');
  });
});

describe('capture queue', () => {
  const said = (...words: readonly string[]): readonly string[] => {
    const { command, args } = findCommand(QUEUE_COMMANDS, words);
    return mistakes(command, args);
  };

  it.each(['cancel', 'retry', 'drain', 'status'])('acts on nothing behind --: %s', (name) => {
    const refusal = `capture queue ${name} runs no task, and takes no 'x'; try: leave out -- and what stands behind it`;
    expect(said('queue', name, QUEUE, '--', 'x')).toContain(refusal);
    expect(said('queue', name, 'x', QUEUE, '--')).toEqual([]);
  });

  it('names its commands, and the one that was probably meant', () => {
    const all = 'status, ui, retry, cancel, drain';
    expect(said('queue')).toEqual([`capture queue does one of these: ${all}; try: capture queue --help`]);
    expect(said('queue', 'statsu', '--json')).toEqual([
      `unknown command 'queue statsu': there are ${all}; try: capture queue status`,
    ]);
    expect(said('queue', '--jsn')).toEqual([
      'unknown option --jsn; try: capture queue --help',
      `capture queue does one of these: ${all}; try: capture queue --help`,
    ]);
  });
});
