// The options for the start: what to restore before the task runs, and whether to run it at all.
import type { Settings } from '../../model/format/settings.ts';
import { LAST_SEEN_VARIABLE } from '../../model/format/shared-sidecar.ts';
import { choice } from './readers.ts';
import { group, RESTORING, RUN } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

export const START = group('Start of the task:', {
  handoff: {
    flags: '--handoff',
    help: "claim the attempt, for the 'capture watch' that follows in the same work directory",
    on: ['restore'],
  },
  noRestore: { flags: '--no-restore', help: 'start from nothing', on: RUN },
  skipDone: { flags: '--skip-done', help: 'exit 0 at once when this index is done', on: RUN },
  onLocal: {
    flags: '--on-local <which>',
    help: 'which one is used if a checkpoint is here and in the store: stored, or newest',
    on: RESTORING,
    read: choice('stored', 'newest'),
    default: 'stored',
  },
});

export function startOf(
  values: Values,
  { command, env }: RunCaller,
): Pick<Settings, 'handoff' | 'restore' | 'skipDone' | 'lastSeen' | 'onLocal'> {
  const { noRestore, ...start } = values.all(START);
  // `capture restore` has already restored the files; next to the task's container they belong to the task.
  const lastSeen = command === 'run' ? env[LAST_SEEN_VARIABLE] : undefined;
  return { ...start, lastSeen, restore: command !== 'watch' && !noRestore };
}
