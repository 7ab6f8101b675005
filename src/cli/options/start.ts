// The options that say what there is before the task starts.
import type { Settings } from '../../model/format/settings.ts';
import { choice } from './readers.ts';
import { group, RESTORING, RUN } from './spec.ts';
import type { Place, Values } from './values.ts';

export const START = group('Start of the task:', {
  handoff: {
    flags: '--handoff',
    kind: 'flag',
    help: "claim the attempt, for the 'capture watch' that follows in the same work directory",
    on: ['restore'],
  },
  'no-restore': {
    flags: '--no-restore',
    kind: 'flag',
    help: 'start from nothing',
    on: RUN,
  },
  'skip-done': {
    flags: '--skip-done',
    kind: 'flag',
    help: 'exit 0 at once when this index is done',
    on: RUN,
  },
  'on-local': {
    flags: '--on-local <which>',
    kind: 'value',
    help: 'when a checkpoint is here and in the store: stored, or newest',
    on: RESTORING,
    read: choice('stored', 'newest'),
    default: 'stored',
  },
});

export function startOf(
  values: Values,
  { command }: Place,
): Pick<Settings, 'handoff' | 'restore' | 'skipDone' | 'onLocal'> {
  return {
    handoff: values.has(START.handoff),
    // Beside a task's container the files are already those of the task: `capture restore` went before.
    restore: command !== 'watch' && !values.has(START['no-restore']),
    skipDone: values.has(START['skip-done']),
    onLocal: values.of(START['on-local']),
  };
}
