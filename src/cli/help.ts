// What --help prints. It is made from the table of options, so that no option is left out.
import { ARRAY_COMMAND_NAMES, ARRAY_COMMANDS } from './array-commands.ts';
import { commanderOf } from './command-line.ts';
import { type CommandName, specOf } from './options.ts';

const USAGE: Readonly<Record<CommandName, string>> = {
  run: '[options] -- <task> [args...]',
  watch: '[options]',
  restore: '[options]',
};

const ABOUT: Readonly<Record<CommandName, string>> = {
  run:
    'Runs one task of a job array and keeps what it makes: results and checkpoints go to object storage the ' +
    'moment they are closed, and the next attempt resumes.',
  watch:
    "Captures beside a task that somebody else runs, such as another container of a pod: the same as 'capture', " +
    'without a task. It goes on with what restore --handoff began. SIGTERM ends it, or --exit-file: final scan, ' +
    'drain, exit. It takes all options of a run; those that are not here mean nothing to it.',
  restore:
    'Brings inputs and the newest good checkpoint into the work directory, and exits. With --handoff it begins ' +
    "the attempt that the 'capture watch' that follows goes on with. It takes all options of a run; those that " +
    'are not here mean nothing to it.',
};

const COMMAND_LINES: readonly (readonly [usage: string, what: string])[] = [
  ['[options] -- <task>', 'run a task with capture beside it'],
  ['run <job.yaml> [options]', 'run one task of a job file'],
  ['array [options]', 'run all tasks of an array on this machine'],
  ['submit [options]', 'put an array into a queue, for several machines'],
  ['worker [options]', 'run tasks of a queue on this machine'],
  ['queue <command>', 'status, ui, cancel, retry, drain: what is in a queue'],
  ['template [name]', 'a commented job file to begin with, or a job script'],
  ['watch [options]', 'capture beside a task that somebody else runs'],
  ['flush [options]', "wait until all that is closed is stored (for the task's scripts)"],
  ['restore [options]', 'only bring inputs and checkpoint into the work directory'],
  ...ARRAY_COMMAND_NAMES.map((name) => {
    const { operands, what } = ARRAY_COMMANDS[name];
    return [`${name} ${operands}`, what] as const;
  }),
];

const WIDEST = Math.max(...COMMAND_LINES.map(([usage]) => usage.length));
const COMMANDS = `Commands:
${COMMAND_LINES.map(([usage, what]) => `  capture ${usage.padEnd(WIDEST)}  ${what}\n`).join('')}`;

const VALUES = `Values:
  A pattern is an exact path, a glob or a directory (everything below it). '@file' stands for the
  lines of that file, one pattern each, # begins a comment; a name that begins with @ is '\\@name'.
  Durations carry a unit: ms, s, m, h, d. Sizes too: B, KiB, MiB, GiB, kB, MB, GB.
  Each option has an environment variable, CAPTURE_RESULTS for --results: one pattern a line, and
  1 or 0 for options without a value. The command line wins.
`;

/** Of each command those that it can end with. */
const STATUSES: Readonly<Record<CommandName, string>> = {
  run: `Exit status:
  the task's own; 128+N when signal N ended it; and of capture itself:
   64  an option, a pattern or the work directory is wrong (nothing was started)
   66  an input is neither here nor in the store (nothing was started)
   69  the store cannot be used, or no recorded checkpoint can be restored (nothing was started)
   70  capture itself failed
   74  the task succeeded, but something that was closed is not stored
   75  preempted: run me again (--preempted-status)
   76  another attempt has taken this index over: do not run me again
  126  the task cannot be executed
  127  there is no such task
`,
  watch: `Exit status:
    0  everything that was closed is stored; and the task ended with 0, as far as --exit-file says
   64  an option, a pattern, the work directory or the exit file is wrong
   66  an input is neither here nor in the store
   69  the store cannot be used
   70  capture itself failed
   74  something that was closed is not stored
   75  preempted, as far as --exit-file says: run me again (--preempted-status)
   76  another attempt has taken this index over: do not run me again
  143  stopped by SIGTERM before it watched (130 by SIGINT, ...)
  and with --exit-file what the task ended with
`,
  restore: `Exit status:
    0  restored, or nothing is stored yet
   64  an option, a pattern or the work directory is wrong
   66  an input is neither here nor in the store
   69  the store cannot be used, or no recorded checkpoint can be restored
   70  capture itself failed
   76  with --handoff: another attempt has taken this index over
  143  stopped by SIGTERM (130 by SIGINT, ...)
`,
};

const EXAMPLES: Readonly<Record<CommandName, string>> = {
  run: `Examples:
  capture -r result.dat -k state.chk --to s3://lab/run7 -- ./simulate --steps 1000000
  capture -r 'frames/*.png' -i scene.pov --workdir /dev/shm/f --to s3://lab/film -- povray scene.pov
  capture -k @checkpoints.txt --to "/shared/store/$SLURM_ARRAY_JOB_ID" -- srun ./task
`,
  watch: `Examples:
  capture watch -r 'out/' -k state.chk --workdir /work --to s3://lab/run7
  capture watch -r r.dat -k state.chk --to s3://lab/run7 --exit-file status --control /tmp/control
`,
  restore: `Examples:
  capture restore -k state.chk -i input.dat --task-name simulate --workdir /work --to s3://lab/run7
  capture restore --handoff -k state.chk -i input.dat --workdir /work --to s3://lab/run7
`,
};

export function helpText(name: CommandName): string {
  const options = commanderOf(specOf(name)).usage(USAGE[name]).description(ABOUT[name]).helpInformation();
  return [
    options.trimEnd() + '\n',
    ...(name === 'run' ? [COMMANDS] : []),
    VALUES,
    STATUSES[name],
    EXAMPLES[name],
  ].join('\n');
}
