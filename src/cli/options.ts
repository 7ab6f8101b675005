// Every option that capture offers: the one table from which parsing, environment twins and help are made.
// An option stands here only when it does something.
import { END_OPTIONS } from './end-options.ts';
import { NOTICE_OPTIONS } from './notice-options.ts';
import {
  CAPTURING,
  CHECKPOINTS,
  FILES,
  flag,
  IDENTITY,
  list,
  LOCAL,
  MESSAGES,
  RESTORING,
  RUN,
  SENDING,
  START,
  STORE,
  table,
  value,
  type CommandName,
} from './option-spec.ts';

export type { CommandName } from './option-spec.ts';

export const OPTIONS = table({
  results: list(FILES, '-r, --results <pattern>', 'final files: stored when they are closed'),
  checkpoints: list(
    FILES,
    '-k, --checkpoints <pattern>',
    'files to resume from: stored together, as one moment',
  ),
  inputs: list(
    FILES,
    '-i, --inputs <pattern>',
    'files that the task reads, or keeps using: fetched before it starts',
  ),
  companions: list(
    FILES,
    '--companions <pattern>',
    'append-only files that the task keeps open and needs to resume: stored as they grow',
  ),
  exclude: list(FILES, '--exclude <pattern>', 'never read and never touched, whatever else matches'),

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
  unfenced: flag(STORE, '--unfenced', 'use a server without create-only puts: two attempts may then collide'),

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
  ),
  control: value(
    LOCAL,
    '--control <path>',
    "listen there for 'capture flush --control <path>', such as on a shared volume",
    undefined,
    ['watch'],
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
    'a set whose rounds are not known is complete after so long a pause',
    '2s',
    CAPTURING,
  ),
  'checkpoint-last': value(
    CHECKPOINTS,
    '--checkpoint-last <pattern>',
    'a set is proven whole only when this file is closed',
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
    'of what the last star of a pattern names, only the n newest belong to a set',
    'all',
    CAPTURING,
  ),
  'companion-interval': value(
    CHECKPOINTS,
    '--companion-interval <duration>',
    'companions are stored so often between two checkpoints, at least 1s',
    '1m',
    CAPTURING,
  ),
  'verify-checkpoint': value(
    CHECKPOINTS,
    '--verify-checkpoint <command>',
    'sh -c <command> in the restored directory: not 0 takes the set before',
  ),
  'verify-at': value(
    CHECKPOINTS,
    '--verify-at <when>',
    'when that command runs: restore, commit (before a set is committed) or both',
    'restore',
  ),

  handoff: flag(
    START,
    '--handoff',
    "claim the attempt, for the 'capture watch' that follows in the same work directory",
    ['restore'],
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

  ...NOTICE_OPTIONS,
  ...END_OPTIONS,

  compression: value(SENDING, '--compression <how>', 'zstd, zstd:<1 to 19> or none', 'zstd:1', CAPTURING),
  lanes: value(SENDING, '--lanes <n>', 'threads that read, hash and compress, 1 to 16', '2', CAPTURING),
  spool: value(
    SENDING,
    '--spool <dir>',
    'where a file is copied that the task rewrites while it is being sent',
    'the directory for temporary files',
    CAPTURING,
  ),
  'spool-limit': value(
    SENDING,
    '--spool-limit <size>',
    'the most that each of these copies takes',
    '1GiB',
    CAPTURING,
  ),

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

/**
 * Options of a run that mean nothing to the command: accepted, so that one list of options serves all, and not read.
 * To a restore those of the watch that may follow are such, too.
 */
export function idleOptionsOf(command: CommandName): readonly OptionName[] {
  const accepted = command === 'restore' ? CAPTURING : RUN;
  return OPTION_NAMES.filter((name) => {
    const { on } = OPTIONS[name];
    return !on.includes(command) && accepted.some((other) => on.includes(other));
  });
}

/** `checkpoint-settle` → `CAPTURE_CHECKPOINT_SETTLE`. */
export function envNameOf(name: OptionName): string {
  return `CAPTURE_${name.toUpperCase().replaceAll('-', '_')}`;
}
