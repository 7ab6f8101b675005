// The options for the start: what is restored before the task runs, and whether it runs at all.
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
    help: 'which one is used if a checkpoint is here and in the store: stored, or newest',
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
    // Beside the task's container the files are those of the task already: `capture restore` has brought them.
    restore: command !== 'watch' && !values.has(START['no-restore']),
    skipDone: values.has(START['skip-done']),
    onLocal: values.of(START['on-local']),
  };
}
