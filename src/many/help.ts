// What `capture array --help` prints, made from the table of options.
import { commanderOf } from '../cli/command-line.ts';
import type { CommandSpec } from '../cli/options/spec.ts';

const ABOUT =
  'Runs all tasks of an array on this machine, as many at once as it carries, each of them as capture runs one: in a ' +
  'work directory of its own, stored as its files are closed, resumed from its checkpoint. What is done in the store ' +
  'is not run again. {index} in the command is the index, {name} a column of --tasks. A job file has the same options ' +
  'as keys, and the command: capture template > job.yaml writes one to begin with. The command line wins.';

export const EXAMPLES: readonly string[] = [
  'capture array --array 0-99 -r final.dat -k state.chk --to s3://lab/run7 -- ./task {index}',
  'capture array --tasks commands.txt -r out/ --to /shared/run7 --retries 2 --halt soon,fail=10%',
  'capture array --tasks runs.csv -r final.dat --to s3://lab/run7 -- ./task --seed {seed}',
  'capture array job.yaml --jobs 2',
];

export function helpText(spec: CommandSpec<string>): string {
  const usage = '[job.yaml] [options] [-- <task> [args...]]';
  return [
    `${commanderOf(spec).usage(usage).description(ABOUT).helpInformation().trimEnd()}\n`,
    `Signals:
  SIGTERM, SIGINT: each task is told to checkpoint and end, and is stored. A second SIGINT (Ctrl-C)
  does not wait for checkpoints, a third one kills all. The same command later does what is left.
`,
    `Exit status:
    0  all are done
    1  some have failed
   64  an option is wrong (nothing was started)
   69  the store cannot be used (nothing was started)
   70  capture itself failed
   75  told to stop (SIGTERM, a notice), and some are left: run me again
   76  what is not done is at work in other attempts
  130  stopped by SIGINT, and some are left
`,
    `Examples:\n${EXAMPLES.map((line) => `  ${line}\n`).join('')}`,
  ].join('\n');
}
