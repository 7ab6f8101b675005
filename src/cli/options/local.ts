// The options about the work directory, and about the local files that capture deletes there.
import type { Mistake } from '../../model/errors.ts';
import { parsePattern } from '../../model/file/manifest.ts';
import { LONGEST_SOCKET_PATH_BYTES } from '../../model/format/control.ts';
import type { Settings } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';
import { choice, durationMs, filePath } from './readers.ts';
import { ALL, CAPTURING, group } from './spec.ts';
import type { Place, Values } from './values.ts';

export const LOCAL = group('Local files:', {
  workdir: {
    flags: '--workdir <dir>',
    kind: 'value',
    help: 'where the task runs and what is watched',
    on: ALL,
    read: filePath,
    otherwise: 'the current directory',
  },
  'shared-workdir': {
    flags: '--shared-workdir',
    kind: 'flag',
    help: 'several captures in one work directory: no globs, no reclaim',
    on: ALL,
  },
  control: {
    flags: '--control <path>',
    kind: 'value',
    help: "listen there for 'capture flush --control <path>', such as on a shared volume",
    on: ['watch'],
    read: filePath,
  },
  reclaim: {
    flags: '--reclaim <when>',
    kind: 'value',
    help: 'delete stored local files: auto (at the end, or when space runs short), now, never',
    on: CAPTURING,
    read: choice('auto', 'now', 'never'),
    default: 'auto',
    answeredBy: 'keep',
  },
  keep: {
    flags: '--keep',
    kind: 'flag',
    help: 'the same as --reclaim never',
    on: CAPTURING,
    answeredBy: 'reclaim',
  },
  rescan: {
    flags: '--rescan <duration>',
    kind: 'value',
    help: 'how often a network file system is scanned, at least 1s',
    on: CAPTURING,
    read: durationMs(1000),
    default: '60s',
  },
});

/** Read before all others: patterns and paths are below it. */
export function workdirOf(values: Values, { cwd, outside }: Omit<Place, 'workdir'>): string {
  const workdir = values.path(LOCAL.workdir) ?? cwd;
  const problem = outside.workdirProblem(workdir);
  if (problem !== undefined)
    values.refuse([{ message: `cannot work in ${showPath(workdir)}: ${problem.why}`, hint: problem.hint }]);
  return workdir;
}

export function localOf(
  values: Values,
): Pick<Settings, 'sharedWorkdir' | 'control' | 'reclaim' | 'rescanMs'> {
  const sharedWorkdir = values.has(LOCAL['shared-workdir']);
  const reclaim = values.has(LOCAL.keep) || sharedWorkdir ? 'never' : values.of(LOCAL.reclaim);
  return { sharedWorkdir, control: controlOf(values), reclaim, rescanMs: values.of(LOCAL.rescan) };
}

function controlOf(values: Values): string | undefined {
  const socket = values.path(LOCAL.control);
  const source = values.given(LOCAL.control)?.source;
  if (socket !== undefined && source !== undefined) values.refuse(socketMistakes(socket, source));
  return socket;
}

/** Why a path cannot be that of a socket, whoever listens there. */
export function socketMistakes(path: string, source: string): readonly Mistake[] {
  const lengthBytes = Buffer.byteLength(path);
  if (path !== '' && !path.includes('\0') && lengthBytes <= LONGEST_SOCKET_PATH_BYTES) return [];
  return [
    {
      message:
        path === ''
          ? `${source} '': not a path`
          : `${source}: a socket's path has at most ${LONGEST_SOCKET_PATH_BYTES} bytes, this one ${lengthBytes}`,
      hint: `${source}${source.startsWith('--') ? ' ' : '='}/tmp/control`,
    },
  ];
}

export function localContradictions(values: Values, settings: Settings): readonly Mistake[] {
  return [...reclaim(values, settings), ...sharedWorkdir(values, settings)];
}

function reclaim(values: Values, settings: Settings): readonly Mistake[] {
  const mode = values.given(LOCAL.reclaim);
  const asked = mode?.values.at(-1);
  if (mode === undefined || asked === 'never') return [];
  if (values.has(LOCAL.keep)) {
    return [
      {
        message: `${mode.source} ${asked ?? ''} and --keep contradict each other`,
        hint: 'leave one of them out',
      },
    ];
  }
  if (settings.sharedWorkdir) {
    return [
      {
        message: `${mode.source} ${asked ?? ''}: in a shared work directory nothing is reclaimed`,
        hint: `leave out ${mode.source}, or give each task a work directory of its own`,
      },
    ];
  }
  if (asked === 'now' && settings.perishableStore) {
    return [
      {
        message: `${mode.source} now: nothing is reclaimed for a store that goes with the work directory`,
        hint: '--to s3://bucket/prefix, or a directory on another disk',
      },
    ];
  }
  return [];
}

/** If several tasks write in one directory, only exact names tell whose file it is. */
function sharedWorkdir(values: Values, { sharedWorkdir: shared, manifest }: Settings): readonly Mistake[] {
  if (!shared) return [];
  const wide = [...manifest.results, ...manifest.checkpoints, ...manifest.companions].find(
    (pattern) => pattern.endsWith('/') || parsePattern(pattern).kind === 'glob',
  );
  if (wide === undefined) return [];
  const source = values.given(LOCAL['shared-workdir'])?.source ?? '';
  return [
    {
      message: `${source}: '${showPath(wide)}' would also match the files of other tasks`,
      hint: 'name the files exactly, or give each task a work directory of its own',
    },
  ];
}
