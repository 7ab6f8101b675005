// The options for checkpoint sets: when the files are a complete set, how many sets are kept, and how a set is
// verified.
import type { ManifestPatterns } from '../../model/file/manifest.ts';
import type { Settings, Verification } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';
import { checkPattern } from './patterns.ts';
import { choice, count, durationMs, shellCommand } from './readers.ts';
import { ALL, CAPTURING, group } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

export const CHECKPOINTS = group('Checkpoints:', {
  checkpointSettleMs: {
    flags: '--checkpoint-settle <duration>',
    help: 'a pause after which new files are taken as a set; it proves nothing',
    on: CAPTURING,
    read: durationMs(),
    default: '2s',
  },
  checkpointLast: {
    flags: '--checkpoint-last <pattern>',
    help: 'a set is proven whole only when this file is closed',
    on: CAPTURING,
  },
  generations: {
    flags: '--generations <n>',
    help: 'how many complete sets are kept in the store',
    on: CAPTURING,
    read: count(1, 1000),
    default: '2',
  },
  dropCheckpoints: {
    flags: '--drop-checkpoints-when-done',
    help: 'delete the sets once the index is done, with no result incomplete',
    on: CAPTURING,
  },
  newest: {
    flags: '--newest <n>',
    help: 'of the files that differ in the last star of a pattern, only the n newest belong to a set',
    on: CAPTURING,
    read: count(1, Infinity),
    otherwise: 'all',
  },
  companionIntervalMs: {
    flags: '--companion-interval <duration>',
    help: 'how often companions are stored between two checkpoints, at least 1s',
    on: CAPTURING,
    read: durationMs(1000),
    default: '1m',
  },
  verifyCheckpoint: {
    flags: '--verify-checkpoint <command>',
    help: 'sh -c <command> in the restored directory: if it fails, the previous set is restored',
    on: ALL,
    read: shellCommand,
  },
  verifyAt: {
    flags: '--verify-at <when>',
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

export function checkpointsOf(values: Values, { command, workdir }: RunCaller): CheckpointSettings {
  const { checkpointSettleMs, generations, dropCheckpoints, newest, companionIntervalMs } =
    values.all(CHECKPOINTS);
  return {
    checkpointSettleMs,
    checkpointLast: values.parsed(CHECKPOINTS.checkpointLast, (text, source) =>
      checkPattern(text, source, workdir),
    ),
    generations,
    dropCheckpoints,
    newest,
    companionIntervalMs,
    verify: verificationOf(values, command === 'watch'),
  };
}

/** `capture watch` restores nothing, so it can only verify commits. */
function verificationOf(values: Values, isBeside: boolean): Verification | undefined {
  const command = values.of(CHECKPOINTS.verifyCheckpoint);
  const asked = values.of(CHECKPOINTS.verifyAt);
  const at = isBeside && !values.has(CHECKPOINTS.verifyAt) ? 'commit' : asked;
  if (command === undefined) return undefined;
  return { command, atRestore: at !== 'commit', atCommit: at !== 'restore' };
}

export function refuseCheckpoints(values: Values): void {
  const at = values.given(CHECKPOINTS.verifyAt);
  if (at === undefined || values.has(CHECKPOINTS.verifyCheckpoint)) return;
  values.refuse(
    `${at.source} ${showPath(at.values.at(-1) ?? '')}: there is nothing to verify with`,
    "--verify-checkpoint './check state.chk'",
  );
}
