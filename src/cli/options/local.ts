// The options for the work directory, and for local files that capture deletes there.
import type { Mistake } from '../../model/errors.ts';
import { parsePattern } from '../../model/file/manifest.ts';
import { LONGEST_SOCKET_PATH_BYTES } from '../../model/format/control.ts';
import type { Settings } from '../../model/format/settings.ts';
import { RUNNER_VARIABLE } from '../../model/format/shared-sidecar.ts';
import { showPath } from '../../model/path.ts';
import { absolutePath, choice, durationMs } from './readers.ts';
import { STORE } from './store.ts';
import { ALL, CAPTURING, group, type Option, type RunName } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

/** `--workdir auto`: capture makes the directory. All others are absolute paths. */
const AUTO = 'auto';
/** The directory while the command line is read: no pattern may name it, and no store can be in it. */
export const SOME_WORKDIR = '/dev/shm/capture-work.XXXXXX/0';

export const LOCAL = group('Local files:', {
  workdir: {
    flags: '--workdir <dir>',
    help: 'where the task runs and what is watched; auto: a fresh directory for each attempt of a run',
    on: ALL,
    read: (text, cwd) => (text === AUTO ? { value: AUTO } : absolutePath(text, cwd)),
    otherwise: 'the current directory',
  },
  sharedWorkdir: {
    flags: '--shared-workdir',
    help: 'several captures in one work directory: no globs, no reclaim',
    on: ALL,
  },
  control: {
    flags: '--control <path>',
    help: "listen there for 'capture flush --control <path>', such as on a shared volume",
    on: ['watch'],
    read: absolutePath,
  },
  reclaim: {
    flags: '--reclaim <when>',
    help: 'delete stored local files: auto (at the end, or when space runs short), now, never',
    on: CAPTURING,
    read: choice('auto', 'now', 'never'),
    default: 'auto',
    answeredBy: 'keep',
  },
  keep: { flags: '--keep', help: 'the same as --reclaim never', on: CAPTURING, answeredBy: 'reclaim' },
  rescanMs: {
    flags: '--rescan <duration>',
    help: 'how often a network file system is scanned, at least 1s',
    on: CAPTURING,
    read: durationMs(1000),
    default: '60s',
  },
});

/** Read first, because patterns and paths are relative to it. */
export function workdirOf(values: Values, { cwd, outside, command }: Omit<RunCaller, 'workdir'>): string {
  const workdir = values.of(LOCAL.workdir) ?? cwd;
  if (workdir === AUTO) {
    if (command !== 'run')
      values.refuse(
        `${sourceOf(values, LOCAL.workdir)} auto: only a run makes its work directory itself`,
        'name the directory: --workdir <dir>',
      );
    return SOME_WORKDIR;
  }
  const problem = outside.workdirProblem(workdir);
  if (problem !== undefined)
    values.refuse(`cannot work in ${showPath(workdir)}: ${problem.why}`, problem.hint);
  return workdir;
}

/** `--workdir auto`: the directory is made when the run starts. */
export function makesWorkdir(values: Values): boolean {
  return values.of(LOCAL.workdir) === AUTO;
}

function sourceOf(values: Values, option: Option): string {
  return values.given(option)?.source ?? `--${option.name}`;
}

export function localOf(
  values: Values,
  { env }: Pick<RunCaller, 'env'>,
): Pick<Settings, 'sharedWorkdir' | 'madeWorkdir' | 'control' | 'reclaim' | 'rescanMs'> {
  const { sharedWorkdir, keep, reclaim, rescanMs } = values.all(LOCAL);
  return {
    sharedWorkdir,
    madeWorkdir: makesWorkdir(values) || env[RUNNER_VARIABLE] !== undefined,
    control: controlOf(values),
    reclaim: keep || sharedWorkdir ? 'never' : reclaim,
    rescanMs,
  };
}

function controlOf(values: Values): string | undefined {
  const socket = values.of(LOCAL.control);
  const source = values.given(LOCAL.control)?.source;
  if (socket !== undefined && source !== undefined) refuseSocket(values, socket, source);
  return socket;
}

/** Refuses a path that no socket can have, whichever process would listen there. */
export function refuseSocket(values: Values, path: string, source: string): void {
  const lengthBytes = Buffer.byteLength(path);
  if (path !== '' && !path.includes('\0') && lengthBytes <= LONGEST_SOCKET_PATH_BYTES) return;
  values.refuse(
    path === ''
      ? `${source} '': not a path`
      : `${source}: a socket's path has at most ${LONGEST_SOCKET_PATH_BYTES} bytes, this one ${lengthBytes}`,
    `${source}${source.startsWith('--') ? ' ' : '='}/tmp/control`,
  );
}

export function refuseLocal(values: Values, settings: Settings, command: RunName): void {
  refuseReclaim(values, settings);
  if (command === 'run' && makesWorkdir(values)) refuseUnfitForAuto(values, settings);
  if (settings.sharedWorkdir) refuseWidePatterns(values, settings);
}

/** The directory is removed at the end, with all that is stored. */
function refuseUnfitForAuto(values: Values, { reclaim, sharedWorkdir }: Settings): void {
  const auto = `${sourceOf(values, LOCAL.workdir)} auto`;
  if (!values.has(STORE.to)) values.refuseAll([NO_STORE]);
  const other = sharedWorkdir ? LOCAL.sharedWorkdir : values.has(LOCAL.keep) ? LOCAL.keep : LOCAL.reclaim;
  if (reclaim !== 'never') return;
  const text = other === LOCAL.reclaim ? ' never' : '';
  values.refuse(
    `${auto} and ${sourceOf(values, other)}${text} contradict each other: the directory is this attempt's alone, and is removed when all is stored`,
    'leave one of them out, or name a directory with --workdir',
  );
}

export const NO_STORE: Mistake = {
  message:
    'no --to is given: the work directory of a task is removed when it is done, and nothing would be left',
  hint: '--to s3://bucket/prefix, or a directory',
};

function refuseReclaim(values: Values, settings: Settings): void {
  const mode = values.given(LOCAL.reclaim);
  const asked = mode?.values.at(-1);
  if (mode === undefined || asked === 'never') return;
  const { source } = mode;
  if (values.has(LOCAL.keep)) {
    values.refuse(`${source} ${asked} and --keep contradict each other`, 'leave one of them out');
  } else if (settings.sharedWorkdir) {
    values.refuse(
      `${source} ${asked}: in a shared work directory nothing is reclaimed`,
      `leave out ${source}, or give each task a work directory of its own`,
    );
  } else if (asked === 'now' && settings.perishableStore) {
    values.refuse(
      `${source} now: nothing is reclaimed for a store inside the work directory`,
      '--to s3://bucket/prefix, or a directory on another disk',
    );
  }
}

/** If several tasks write to one directory, only exact names tell which task a file belongs to. */
function refuseWidePatterns(values: Values, { manifest }: Settings): void {
  const wide = [...manifest.results, ...manifest.checkpoints, ...manifest.companions].find(
    (pattern) => pattern.endsWith('/') || parsePattern(pattern).kind === 'glob',
  );
  if (wide === undefined) return;
  const source = values.given(LOCAL.sharedWorkdir)?.source ?? '';
  values.refuse(
    `${source}: '${showPath(wide)}' would also match the files of other tasks`,
    'name the files exactly, or give each task a work directory of its own',
  );
}
