// Every option that capture offers: the one table from which parsing, environment twins and help are made.
// An option stands here only when it does something.

export type CommandName = 'run' | 'watch' | 'restore';

/** `list`: repeatable, one value each. `value`: one value, the last one counts. `flag`: no value. */
export type OptionKind = 'list' | 'value' | 'flag';

export interface OptionSpec {
  /** As commander writes it: `-r, --results <pattern>`. */
  readonly flags: string;
  readonly kind: OptionKind;
  readonly group: string;
  readonly help: string;
  /** Shown as `(default: ...)`. */
  readonly fallback?: string;
  readonly on: readonly CommandName[];
}

const ALL: readonly CommandName[] = ['run', 'watch', 'restore'];
const CAPTURING: readonly CommandName[] = ['run', 'watch'];
const RESTORING: readonly CommandName[] = ['run', 'restore'];
const RUN: readonly CommandName[] = ['run'];

const FILES = 'Files (exact path, glob or directory, relative to the work directory; repeatable):';
const STORE = 'Store:';
const IDENTITY = 'Who this is:';
const LOCAL = 'Local files:';
const CHECKPOINTS = 'Checkpoints:';
const START = 'Start of the task:';
const END = 'End of the task:';
const SENDING = 'Sending:';
const MESSAGES = 'Messages:';

function table<Name extends string>(
  specs: Readonly<Record<Name, OptionSpec>>,
): Readonly<Record<Name, OptionSpec>> {
  return specs;
}

const list = (flags: string, help: string, on = ALL): OptionSpec => ({
  flags,
  kind: 'list',
  group: FILES,
  help,
  on,
});

function value(group: string, flags: string, help: string, fallback?: string, on = ALL): OptionSpec {
  return { flags, kind: 'value', group, help, fallback, on };
}

const flag = (group: string, flags: string, help: string, on = ALL): OptionSpec => ({
  flags,
  kind: 'flag',
  group,
  help,
  on,
});

export const OPTIONS = table({
  results: list('-r, --results <pattern>', 'final files: stored when they are closed'),
  checkpoints: list('-k, --checkpoints <pattern>', 'files to resume from: stored together, as one moment'),
  inputs: list(
    '-i, --inputs <pattern>',
    'files that the task reads, or keeps using: fetched before it starts',
  ),
  exclude: list('--exclude <pattern>', 'never read and never touched, whatever else matches'),

  to: value(STORE, '--to <url>', 's3://bucket/prefix, file:///dir or a directory', './capture-store'),
  from: value(
    STORE,
    '--from <url>',
    'where inputs are looked for first; never written',
    'as --to',
    RESTORING,
  ),
  'path-style': flag(
    STORE,
    '--path-style',
    'put the bucket into the path of the URL, not into the host name',
  ),
  unfenced: flag(
    STORE,
    '--unfenced',
    'use a server without create-only puts: two attempts may then collide',
    CAPTURING,
  ),

  index: value(IDENTITY, '--index <id>', '1 to 64 letters, digits, _ and -', "the scheduler's, else none"),
  'task-name': value(
    IDENTITY,
    '--task-name <name>',
    'names checkpoints and records',
    "base name of the task's command, or task",
  ),
  run: value(
    IDENTITY,
    '--run <id>',
    'restore only what was stored under the same id, such as $SLURM_ARRAY_JOB_ID',
  ),

  workdir: value(
    LOCAL,
    '--workdir <dir>',
    'where the task runs and what is watched',
    'the current directory',
  ),
  'shared-workdir': flag(
    LOCAL,
    '--shared-workdir',
    'several captures in one work directory: no globs, no reclaim',
    CAPTURING,
  ),
  reclaim: value(
    LOCAL,
    '--reclaim <when>',
    'delete stored local files: auto (at the end, or when space runs short), now, never',
    'auto',
    CAPTURING,
  ),
  keep: flag(LOCAL, '--keep', 'the same as --reclaim never', CAPTURING),
  rescan: value(
    LOCAL,
    '--rescan <duration>',
    'how often a network file system is scanned, at least 1s',
    '60s',
    CAPTURING,
  ),

  'checkpoint-settle': value(
    CHECKPOINTS,
    '--checkpoint-settle <duration>',
    'a set is complete when it has been quiet for so long',
    '2s',
    CAPTURING,
  ),
  'checkpoint-last': value(
    CHECKPOINTS,
    '--checkpoint-last <pattern>',
    'a set is complete only when this file is closed',
    undefined,
    CAPTURING,
  ),
  generations: value(
    CHECKPOINTS,
    '--generations <n>',
    'complete sets that are kept in the store',
    '2',
    CAPTURING,
  ),
  newest: value(
    CHECKPOINTS,
    '--newest <n>',
    "of each pattern's matches only the n newest belong to a set",
    'all',
    CAPTURING,
  ),

  'no-restore': flag(START, '--no-restore', 'start from nothing', RUN),
  'skip-done': flag(START, '--skip-done', 'exit 0 at once when this index is done', RUN),
  'on-local': value(
    START,
    '--on-local <which>',
    'when a checkpoint is here and in the store: stored, or newest',
    'stored',
    RESTORING,
  ),

  grace: value(
    END,
    '--grace <duration>',
    'time between SIGTERM and SIGKILL',
    "the platform's less 3s, elsewhere 27s",
    CAPTURING,
  ),
  'drain-timeout': value(
    END,
    '--drain-timeout <duration>',
    'time for what is still to be stored after the task has ended by itself',
    '1h',
    CAPTURING,
  ),
  'preempted-status': value(
    END,
    '--preempted-status <n>',
    'exit status that asks to be run again, 1 to 255',
    '75',
    RUN,
  ),

  compression: value(SENDING, '--compression <how>', 'zstd, zstd:<1 to 19> or none', 'zstd:1', CAPTURING),
  lanes: value(SENDING, '--lanes <n>', 'threads that read, hash and compress, 1 to 16', '2', CAPTURING),
  spool: value(
    SENDING,
    '--spool <dir>',
    'where a file is copied that the task rewrites while it is being sent',
    'the directory for temporary files',
    CAPTURING,
  ),
  'spool-limit': value(SENDING, '--spool-limit <size>', 'the most that these copies take', '1GiB', CAPTURING),

  'dry-run': flag(MESSAGES, '--dry-run', 'print identity, matches and keys; start and store nothing'),
  'log-level': value(MESSAGES, '--log-level <level>', 'debug, info, warn, error or silent', 'info'),
  'log-format': value(MESSAGES, '--log-format <format>', 'text or json', 'text'),
  'log-file': value(
    MESSAGES,
    '--log-file <file>',
    'append messages to this file; only errors go to stderr as well',
  ),
});

export type OptionName = keyof typeof OPTIONS;

export const OPTION_NAMES = Object.keys(OPTIONS) as readonly OptionName[];

/** The options of a command, in the order of its help. */
export function optionsOf(command: CommandName): readonly OptionName[] {
  return OPTION_NAMES.filter((name) => OPTIONS[name].on.includes(command));
}

/** `checkpoint-settle` → `CAPTURE_CHECKPOINT_SETTLE`. */
export function twinOf(name: OptionName): string {
  return `CAPTURE_${name.toUpperCase().replaceAll('-', '_')}`;
}
