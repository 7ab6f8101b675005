// The options that say when files to resume from are one whole set, how many sets are kept, and how one is checked.
import type { Mistake } from '../../model/errors.ts';
import type { ManifestPatterns } from '../../model/file/manifest.ts';
import type { Settings, Verification } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';
import { checkPattern } from './patterns.ts';
import { choice, count, durationMs, type Reader } from './readers.ts';
import { ALL, CAPTURING, group } from './spec.ts';
import type { Place, Values } from './values.ts';

const shellCommand: Reader<string> = (text) =>
  text.trim() === '' || text.includes('\0')
    ? { is: 'not a command', example: "'./check state.chk'" }
    : { value: text };

export const CHECKPOINTS = group('Checkpoints:', {
  'checkpoint-settle': {
    flags: '--checkpoint-settle <duration>',
    kind: 'value',
    help: 'a pause after which new files are taken as a set; it proves nothing',
    on: CAPTURING,
    read: durationMs(),
    default: '2s',
  },
  'checkpoint-last': {
    flags: '--checkpoint-last <pattern>',
    kind: 'value',
    help: 'a set is proven whole only when this file is closed',
    on: CAPTURING,
  },
  generations: {
    flags: '--generations <n>',
    kind: 'value',
    help: 'how many complete sets are kept in the store',
    on: CAPTURING,
    read: count(1, 1000),
    default: '2',
  },
  'drop-checkpoints-when-done': {
    flags: '--drop-checkpoints-when-done',
    kind: 'flag',
    help: 'delete the sets once the index is done, with no result incomplete',
    on: CAPTURING,
  },
  newest: {
    flags: '--newest <n>',
    kind: 'value',
    help: 'of the files that differ in the last star of a pattern, only the n newest belong to a set',
    on: CAPTURING,
    read: count(1, Infinity),
    otherwise: 'all',
  },
  'companion-interval': {
    flags: '--companion-interval <duration>',
    kind: 'value',
    help: 'how often companions are stored between two checkpoints, at least 1s',
    on: CAPTURING,
    read: durationMs(1000),
    default: '1m',
  },
  'verify-checkpoint': {
    flags: '--verify-checkpoint <command>',
    kind: 'value',
    help: 'sh -c <command> in the restored directory: if it fails, the previous set is restored',
    on: ALL,
    read: shellCommand,
  },
  'verify-at': {
    flags: '--verify-at <when>',
    kind: 'value',
    help: 'when that command runs: restore, commit (before a set is committed) or both',
    on: ALL,
    read: choice('restore', 'commit', 'both'),
    default: 'restore',
  },
});

type CheckpointSettings = Pick<ManifestPatterns, 'newest'> &
  Pick<
    Settings,
    | 'companionIntervalMs'
    | 'checkpointSettleMs'
    | 'checkpointLast'
    | 'generations'
    | 'dropCheckpoints'
    | 'verify'
  >;

export function checkpointsOf(values: Values, { command, workdir }: Place): CheckpointSettings {
  return {
    checkpointSettleMs: values.of(CHECKPOINTS['checkpoint-settle']),
    checkpointLast: values.parsed(CHECKPOINTS['checkpoint-last'], (text, source) =>
      checkPattern(text, source, workdir),
    ),
    generations: values.of(CHECKPOINTS.generations),
    dropCheckpoints: values.has(CHECKPOINTS['drop-checkpoints-when-done']),
    newest: values.of(CHECKPOINTS.newest),
    companionIntervalMs: values.of(CHECKPOINTS['companion-interval']),
    verify: verificationOf(values, command === 'watch'),
  };
}

/** `capture watch` restores nothing: there only a commit can be verified. */
function verificationOf(values: Values, isBeside: boolean): Verification | undefined {
  const command = values.of(CHECKPOINTS['verify-checkpoint']);
  const asked = values.of(CHECKPOINTS['verify-at']);
  const at = isBeside && !values.has(CHECKPOINTS['verify-at']) ? 'commit' : asked;
  if (command === undefined) return undefined;
  return { command, atRestore: at !== 'commit', atCommit: at !== 'restore' };
}

export function checkpointsContradictions(values: Values): readonly Mistake[] {
  const at = values.given(CHECKPOINTS['verify-at']);
  if (at === undefined || values.has(CHECKPOINTS['verify-checkpoint'])) return [];
  return [
    {
      message: `${at.source} ${showPath(at.values.at(-1) ?? '')}: there is nothing to verify with`,
      hint: "--verify-checkpoint './check state.chk'",
    },
  ];
}
