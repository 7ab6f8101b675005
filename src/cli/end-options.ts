// The options that say what the end of the task means, and how long it may take.
import { CAPTURING, END, flag, list, RUN, table, value } from './option-spec.ts';

export const END_OPTIONS = table({
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
  'exit-file': value(
    END,
    '--exit-file <path>',
    "the task's side writes its exit status there: it ends the watch (restore removes an old one)",
    undefined,
    ['watch', 'restore'],
  ),
  'preempted-status': value(
    END,
    '--preempted-status <n>',
    'exit status that asks to be run again, 1 to 255',
    '75',
    CAPTURING,
  ),
  requeue: value(
    END,
    '--requeue <engine>',
    'slurm: scontrol requeue as the last act of a preempted run',
    undefined,
    RUN,
  ),
  'max-attempts': value(
    END,
    '--max-attempts <n>',
    "after so many attempts without a newer checkpoint, exit with the task's status",
    'no limit',
    RUN,
  ),
  'require-results': flag(
    END,
    '--require-results',
    'a result that never came is no success: exit 74',
    CAPTURING,
  ),
  'done-when': value(
    END,
    '--done-when <pattern>',
    'the result that counts: without it a task that exits 0 is to be run again',
    undefined,
    CAPTURING,
  ),
  'again-status': list(
    END,
    '--again-status <n>',
    'exit status of the task that means "checkpointed, run me again", 1 to 255; repeatable',
    CAPTURING,
  ),
  'trust-exit': list(
    END,
    '--trust-exit <n>',
    'exit status with which the task has closed its files itself, 1 to 255; repeatable',
    CAPTURING,
  ),
});
