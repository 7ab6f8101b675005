// Read this first. From the command line and the environment to what is to be done. Nothing is started here, and all
// mistakes are found before any is said.
import type { Mistake } from '../model/errors.ts';
import type { LogSettings, Settings } from '../model/format/settings.ts';
import { showPath } from '../model/path.ts';
import { parallelStep } from '../scheduler/parallel-step.ts';
import { type CommandLine, readCommandLine } from './command-line.ts';
import { withEnvironment } from './env.ts';
import { helpText } from './help.ts';
import { ARRAY_COMMAND_NAMES } from './array-commands.ts';
import { nearestWord } from '../model/nearest.ts';
import { type CommandName, specOf } from './options.ts';
import { type Outside, realOutside } from './options/outside.ts';
import { settingsOf } from './settings.ts';
import { warningsOf } from './warnings.ts';

export interface Task {
  readonly command: string;
  readonly args: readonly string[];
}

interface Asked {
  readonly settings: Settings;
  readonly dryRun: boolean;
  /** Said once, before anything is started. */
  readonly warnings: readonly Mistake[];
}

export type Parsed =
  | ({ readonly kind: 'run'; readonly task: Task } & Asked)
  | ({ readonly kind: 'watch' } & Asked)
  | ({ readonly kind: 'restore' } & Asked)
  | { readonly kind: 'help'; readonly text: string }
  | { readonly kind: 'version'; readonly text: string }
  | {
      readonly kind: 'mistakes';
      readonly mistakes: readonly Mistake[];
      /** How they are to be said. */
      readonly log: LogSettings;
    };

/** `argv` is without node and script. Relative paths, and a missing `--workdir`, mean `cwd`. */
export function parseCommandLine(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd: string,
  outside: Outside = realOutside,
): Parsed {
  const { command, args, task } = split(argv);
  const strange = command === 'run' ? strangeWord(args[0], task !== undefined) : undefined;
  const spec = specOf(command);
  const line = readCommandLine(spec, args);
  if (strange === undefined && line.help) return { kind: 'help', text: helpText(command) };
  if (strange === undefined && line.version) return { kind: 'version', text: `${CAPTURE_VERSION}\n` };

  const { given, mistakes: envMistakes } = withEnvironment(line.given, env, spec.options);
  const { settings, mistakes } = settingsOf({ command, given, env, cwd, argv: task ?? [], outside });
  if (strange !== undefined) return { kind: 'mistakes', mistakes: [strange], log: settings.log };
  const all = [...line.mistakes, ...wordMistakes(command, line, task), ...envMistakes, ...mistakes];
  const [program, ...taskArgs] = task ?? [];
  const inStep = command === 'run' && program !== undefined ? parallelStep(env, program) : undefined;
  if (inStep !== undefined) all.push(inStep);
  if (all.length === 0 && command === 'restore' && given.has('handoff'))
    all.push(...mistakesOfWatch(args, env, cwd, outside));
  if (all.length > 0) return { kind: 'mistakes', mistakes: all, log: settings.log };

  const warnings = warningsOf({ settings, command, given, env, outside });
  const asked: Asked = { settings, dryRun: given.has('dry-run'), warnings };
  if (command !== 'run') return { kind: command, ...asked };
  return { kind: 'run', task: { command: program ?? '', args: taskArgs }, ...asked };
}

/** `job.yaml`, as the first word behind `capture run`, `array` or `submit` (cli/job); no option is one. */
export function isJobFile(word: string): boolean {
  return /^[^-].*\.ya?ml$/is.test(word);
}

/**
 * What the watch that takes the attempt over would find wrong with the same options. In a pod that would be too late:
 * the task is at work by then, or waits for a container that never starts.
 */
function mistakesOfWatch(
  args: readonly string[],
  ...rest: [env: NodeJS.ProcessEnv, cwd: string, outside: Outside]
): readonly Mistake[] {
  const watch = parseCommandLine(['watch', ...args.filter((word) => word !== '--handoff')], ...rest);
  return watch.kind === 'mistakes' ? watch.mistakes : [];
}

/** The first `--` ends our arguments: no option can take it, or what follows it, for its value. */
function split(argv: readonly string[]): {
  readonly command: CommandName;
  readonly args: readonly string[];
  /** Undefined without a `--`. */
  readonly task: readonly string[] | undefined;
} {
  const end = argv.indexOf('--');
  const ours = end === -1 ? argv : argv.slice(0, end);
  const task = end === -1 ? undefined : argv.slice(end + 1);
  const [first] = ours;
  if (first === 'run' || first === 'watch' || first === 'restore')
    return { command: first, args: ours.slice(1), task };
  return { command: 'run', args: ours, task };
}

/** What a first word may have been meant to be. */
const WORDS = [
  'run',
  'array',
  'submit',
  'worker',
  'queue',
  'template',
  'watch',
  'flush',
  'restore',
  ...ARRAY_COMMAND_NAMES,
  'help',
  'version',
];

/**
 * A first word that is nearly one of ours, or a task without its `--`. Only this mistake is said: the others would be
 * those of another command.
 */
function strangeWord(word: string | undefined, hasTask: boolean): Mistake | undefined {
  if (word === undefined || word.startsWith('-')) return undefined;
  const meant = nearestWord(word, WORDS);
  if (meant === undefined && isJobFile(word))
    return { message: `what shall be done with '${showPath(word)}'?`, hint: ofJobFile(word) };
  if (meant === undefined && hasTask) return undefined;
  if (meant === undefined)
    return {
      message: `-- is missing before '${showPath(word)}'`,
      hint: `${asTask(word)}; if a command of capture is meant: capture --help`,
    };
  const isOption = meant === 'help' || meant === 'version';
  // These two are options; the others, well written, are no mistake.
  if (meant === word && !isOption) return undefined;
  const ours = `capture ${isOption ? '--' : ''}${meant}`;
  return {
    message: `unknown command '${showPath(word)}'`,
    hint: meant === word ? ours : `${ours}; a task stands behind --: ${asTask(word)}`,
  };
}

/** Words where no word belongs, and a task that is missing, or that the command does not take. */
function wordMistakes(
  command: CommandName,
  { operands }: CommandLine,
  task: readonly string[] | undefined,
): readonly Mistake[] {
  const [word] = operands;
  if (command !== 'run') {
    const extra = word ?? task?.[0];
    if (extra === undefined) return [];
    return [
      {
        message: `capture ${command} runs no task, and takes no '${showPath(extra)}'`,
        hint: `capture ${command} --help`,
      },
    ];
  }
  if (task === undefined) {
    return word === undefined
      ? [{ message: 'no task is given', hint: "capture --results 'out/*.dat' -- ./task, or capture --help" }]
      : [{ message: `'${showPath(word)}' stands where an option should`, hint: beforeTask(word) }];
  }
  const mistakes: Mistake[] = [];
  if (word !== undefined) {
    mistakes.push({
      message: `'${showPath(word)}' stands between the options and the task`,
      hint: "each option takes one value; quote wildcards, so that the shell leaves them: --results '*.dat'",
    });
  }
  if (task.length === 0 || task[0] === '') {
    mistakes.push({ message: 'no task is given after --', hint: "capture --results 'out/*.dat' -- ./task" });
  }
  return mistakes;
}

function ofJobFile(word: string): string {
  const file = showPath(word);
  return `capture array ${file}, or one task of it: capture run ${file} --index 0`;
}

function beforeTask(word: string): string {
  if (isJobFile(word)) return `a job file comes first: capture run ${showPath(word)}`;
  return word === 'watch' || word === 'restore'
    ? `the command comes first: capture ${word} [options]`
    : `the task stands behind --: ${asTask(word)}`;
}

function asTask(word: string): string {
  return `capture [options] -- ${showPath(word)}`;
}
