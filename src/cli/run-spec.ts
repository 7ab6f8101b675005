// The command lines of the commands that accompany a task: a run, `capture watch` and `capture restore`. One list of
// options serves all three.
import type { Mistake } from '../model/errors.ts';
import type { Settings } from '../model/format/settings.ts';
import { nearestWord } from '../model/nearest.ts';
import { showPath } from '../model/path.ts';
import { parallelStep } from '../scheduler/parallel-step.ts';
import type { CommandHelp, CommandSpec, Line } from './command.ts';
import { isJobFile } from './command-line.ts';
import { commandsBehind } from './commands.ts';
import { refuseMissingProgram, warnOfFilesHere } from './job/from-here.ts';
import { fromHere, type TaskCommand } from './job/tasks.ts';
import { idleOptionsOf, optionsOf, settingsOf } from './options.ts';
import { makesWorkdir as makesOwnWorkdir } from './options/local.ts';
import { MESSAGES } from './options/messages.ts';
import type { RunName } from './options/spec.ts';
import { START } from './options/start.ts';
import { DEFAULT_TASK_NAME } from './options/task-name.ts';
import { readLine } from './read-line.ts';
import { warningsOf } from './warnings.ts';

export interface Task {
  readonly command: string;
  readonly args: readonly string[];
  /** Added to the inherited environment. */
  readonly env: Readonly<Record<string, string>>;
}

export interface RunRequest {
  readonly settings: Settings;
  /** Empty for `watch` and `restore`. */
  readonly task: Task;
  /** `--workdir auto`: the directory in the settings does not exist yet. */
  readonly makesWorkdir: boolean;
  readonly dryRun: boolean;
}

const VALUES = `Values:
  A pattern is an exact path, a glob or a directory (everything below it). '@file' stands for the
  lines of that file, one pattern each, # begins a comment; a name that begins with @ is '\\@name'.
  Durations carry a unit: ms, s, m, h, d. Sizes too: KiB or K, MiB or M, GiB or G, kB, MB, GB.
  Each option has an environment variable, CAPTURE_RESULTS for --results: one pattern a line, and
  1 or 0 for options without a value. The command line wins. Below them are the defaults in
  /etc/capture.yaml, ~/.config/capture.yaml and $CAPTURE_CONFIG: capture config shows them.
`;

const HELP: Readonly<Record<RunName, CommandHelp>> = {
  run: {
    usage: '[options] -- <task> [args...]',
    about:
      'Runs one task of a job array and keeps what it makes: results and checkpoints go to object storage the ' +
      "moment they are closed, and the next attempt resumes. 'capture run job.yaml' runs one task of a job file.",
    notes: [VALUES],
    statusNotes: {
      before: "the task's own; 128+N when signal N ended it; and of capture itself:",
    },
    statuses: {
      64: 'an option, a pattern or the work directory is wrong (nothing was started)',
      66: 'an input is neither here nor in the store (nothing was started)',
      69: 'the store cannot be used, or no recorded checkpoint can be restored (nothing was started)',
      74: 'the task succeeded, but something that was closed is not stored',
      75: 'preempted: run me again (--preempted-status)',
      76: 'another attempt has taken this index over: do not run me again',
      126: 'the task cannot be executed',
      127: 'there is no such task',
    },
    examples: [
      'capture -r result.dat -k state.chk --to s3://lab/run7 -- ./simulate --steps 1000000',
      "capture -r 'frames/*.png' -i scene.pov --workdir /dev/shm/f --to s3://lab/film -- povray scene.pov",
      'capture -k @checkpoints.txt --to "/shared/store/$SLURM_ARRAY_JOB_ID" -- srun ./task',
    ],
  },
  watch: {
    about:
      'Stores the files of a task that something else runs, such as another container of a pod. It continues the ' +
      'attempt that capture restore --handoff has claimed. SIGTERM or --exit-file ends it: final scan, drain, exit. ' +
      'It accepts all options of a run, and ignores those that are not listed here.',
    notes: [VALUES],
    statusNotes: { behind: 'and with --exit-file what the task ended with' },
    statuses: {
      0: 'everything that was closed is stored; and the task ended with 0, as far as --exit-file says',
      64: 'an option, a pattern, the work directory or the exit file is wrong',
      66: 'an input is neither here nor in the store',
      69: 'the store cannot be used',
      74: 'something that was closed is not stored',
      75: 'preempted, as far as --exit-file says: run me again (--preempted-status)',
      76: 'another attempt has taken this index over: do not run me again',
      143: 'stopped by SIGTERM before it watched (130 by SIGINT, ...)',
    },
    examples: [
      "capture watch -r 'out/' -k state.chk --workdir /work --to s3://lab/run7",
      'capture watch -r r.dat -k state.chk --to s3://lab/run7 --exit-file status --control /tmp/control',
    ],
  },
  restore: {
    about:
      'Brings inputs and the newest good checkpoint into the work directory, and exits. With --handoff it begins ' +
      "the attempt that the 'capture watch' that follows goes on with. It takes all options of a run; those that " +
      'are not here mean nothing to it.',
    notes: [VALUES],
    statuses: {
      0: 'restored, or nothing is stored yet',
      64: 'an option, a pattern or the work directory is wrong',
      66: 'an input is neither here nor in the store',
      69: 'the store cannot be used, or no recorded checkpoint can be restored',
      76: 'with --handoff: another attempt has taken this index over',
    },
    examples: [
      'capture restore -k state.chk -i input.dat --task-name simulate --workdir /work --to s3://lab/run7',
      'capture restore --handoff -k state.chk -i input.dat --workdir /work --to s3://lab/run7',
    ],
  },
};

export const RUN_SPEC = {
  ...specOf('run'),
  takesTask: true,
  handlesSignals: true,
  firstWordMistake,
} as const;
export const WATCH_SPEC = { ...specOf('watch'), handlesSignals: true } as const;
export const RESTORE_SPEC = specOf('restore');

function specOf(command: RunName): CommandSpec<RunRequest> {
  const options = optionsOf(command);
  return {
    name: command,
    help: HELP[command],
    options,
    variables: options,
    idle: idleOptionsOf(command),
    read: (line) => readRun(command, line),
  };
}

function readRun(command: RunName, line: Line): RunRequest | undefined {
  const { values, given, env, cwd, outside } = line;
  if (command === 'run') refuseMissingTask(line);
  const named = settingsOf(values, { command, env, cwd, outside, argv: namingWords(line) });
  const makesWorkdir = makesOwnWorkdir(values);
  const { argv, env: ofTask } = makesWorkdir ? elsewhere(line, named) : taskOf(line, named);
  const settings = { ...named, identity: { ...named.identity, argv } };
  const [program = '', ...args] = argv;
  const inStep = program === '' ? undefined : parallelStep(env, program);
  if (inStep !== undefined) values.refuseAll([inStep]);
  if (given.has(START.handoff.name)) values.refuseAll(mistakesOfWatch(line));
  line.warn(warningsOf({ settings, command, given, env, outside }));
  const task = { command: program, args, env: ofTask };
  return { settings, task, makesWorkdir, dryRun: values.has(MESSAGES.dryRun) };
}

/**
 * The words that the task is named after. After `--` they are complete. In a job file the placeholders have no values
 * yet, and a shell command names no task.
 */
function namingWords({ task }: Line): readonly string[] {
  if (task === undefined) return [];
  return task.kind === 'argv' ? task.argv : [DEFAULT_TASK_NAME];
}

/** A task after `--` replaces the one of the job file, and stays as it is. */
function taskOf({ task, job, values, cwd }: Line, { identity }: Settings): TaskCommand {
  if (task?.kind === 'argv' && task.place === undefined) return { argv: task.argv, env: {} };
  const found = job?.taskOf(identity.index) ?? [];
  if ('argv' in found) {
    // As in `capture array`, for tasks that run in another directory.
    return { argv: found.argv, env: { CAPTURED_SUBMIT_DIR: cwd, ...found.env } };
  }
  values.refuseAll(found);
  return { argv: [], env: {} };
}

/** The task for a directory of its own, as `capture array` has them: same rules, same warnings. */
function elsewhere(line: Line, settings: Settings): TaskCommand {
  const { argv, env } = taskOf(line, settings);
  const named = { argv, isShell: line.task?.kind === 'shell' };
  refuseMissingProgram(line, named, true);
  warnOfFilesHere(line, named, settings.manifest);
  return { argv: fromHere(argv, line.cwd), env: { CAPTURED_SUBMIT_DIR: line.cwd, ...env } };
}

/**
 * Mistakes that the watch would find in the same options when it takes over the attempt. In a pod that would be too
 * late: the task already runs, or waits for a container that never starts.
 */
function mistakesOfWatch({ words, env, cwd, outside }: Line): readonly Mistake[] {
  const ofWatch = words.filter((word) => word !== '--handoff');
  const watch = readLine(WATCH_SPEC, ofWatch, { env, cwd, outside });
  return watch.kind === 'mistakes' ? watch.mistakes : [];
}

function refuseMissingTask({ task, job, hasStray, values }: Line): void {
  if (task === undefined) {
    if (job === undefined && !hasStray)
      values.refuse('no task is given', "capture --results 'out/*.dat' -- ./task, or capture --help");
  } else if (task.kind === 'argv' && (task.argv[0] ?? '') === '') {
    values.refuse('no task is given after --', "capture --results 'out/*.dat' -- ./task");
  }
}

/**
 * Finds a first word that is a mistyped command, or a task without its `--`. No other mistake is reported, because the
 * options would be those of another command.
 */
function firstWordMistake(word: string | undefined, hasTask: boolean): Mistake | undefined {
  if (word === undefined) return undefined;
  const meant = nearestWord(word, [...commandsBehind(''), 'help', 'version']);
  const asTask = `capture [options] -- ${showPath(word)}`;
  if (meant === undefined) {
    const file = showPath(word);
    if (isJobFile(word))
      return {
        message: `what shall be done with '${file}'?`,
        hint: `capture array ${file}, or one task of it: capture run ${file} --index 0`,
      };
    if (hasTask) return undefined;
    const hint = `${asTask}; if a command of capture is meant: capture --help`;
    return { message: `-- is missing before '${file}'`, hint };
  }
  const isOption = meant === 'help' || meant === 'version';
  // These two are options. The other words are correct if they are spelled like this.
  if (meant === word && !isOption) return undefined;
  const ours = `capture ${isOption ? '--' : ''}${meant}`;
  return {
    message: `unknown command '${showPath(word)}'`,
    hint: meant === word ? ours : `${ours}; a task stands behind --: ${asTask}`,
  };
}
