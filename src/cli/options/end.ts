// The options that say what the end of the task means, and how long it may take.
import type { Mistake } from '../../model/errors.ts';
import type { Settings } from '../../model/format/settings.ts';
import { defaultGraceMs } from '../../scheduler/grace.ts';
import { slurmJob } from '../../scheduler/slurm-job.ts';
import { checkPattern } from './patterns.ts';
import { NOTIFY_OPTION } from './notify.ts';
import { choice, count, durationMs, filePath } from './readers.ts';
import { CAPTURING, type CommandName, group, RUN } from './spec.ts';
import type { Place, Values } from './values.ts';

const exitStatus = count(1, 255);

export const END = group('End of the task:', {
  grace: {
    flags: '--grace <duration>',
    kind: 'value',
    help: 'time between SIGTERM and SIGKILL',
    on: CAPTURING,
    read: durationMs(),
    otherwise: "the platform's less 3s, elsewhere 27s",
  },
  'drain-timeout': {
    flags: '--drain-timeout <duration>',
    kind: 'value',
    help: 'time to store what is left after the task has ended by itself',
    on: CAPTURING,
    read: durationMs(),
    default: '1h',
  },
  'exit-file': {
    flags: '--exit-file <path>',
    kind: 'value',
    help: "the task's side writes its exit status there: it ends the watch (restore removes an old one)",
    on: ['watch', 'restore'],
    read: filePath,
  },
  'preempted-status': {
    flags: '--preempted-status <n>',
    kind: 'value',
    help: 'exit status that asks to be run again, 1 to 255',
    on: CAPTURING,
    read: exitStatus,
    default: '75',
  },
  requeue: {
    flags: '--requeue <engine>',
    kind: 'value',
    help: 'slurm: scontrol requeue as the last act of a preempted run',
    on: RUN,
    read: choice('slurm'),
  },
  'max-attempts': {
    flags: '--max-attempts <n>',
    kind: 'value',
    help: "after so many attempts without a newer checkpoint, exit with the task's status",
    on: RUN,
    read: count(1, Infinity),
    otherwise: 'no limit',
  },
  'require-results': {
    flags: '--require-results',
    kind: 'flag',
    help: 'exit 74 if a pattern of results never had a file',
    on: CAPTURING,
  },
  'done-when': {
    flags: '--done-when <pattern>',
    kind: 'value',
    help: 'the result that counts: if it is missing, a task that exits 0 asks to be run again',
    on: CAPTURING,
  },
  'again-status': {
    flags: '--again-status <n>',
    kind: 'list',
    help: 'exit status of the task that means "checkpointed, run me again", 1 to 255; repeatable',
    on: CAPTURING,
    read: exitStatus,
  },
  'trust-exit': {
    flags: '--trust-exit <n>',
    kind: 'list',
    help: 'exit status of the task that means "I have closed my files", 1 to 255; repeatable',
    on: CAPTURING,
    read: exitStatus,
  },
  notify: {
    ...NOTIFY_OPTION,
    help: 'tell it when the run is done or failed: one POST of JSON, or one command that reads it',
    on: CAPTURING,
  },
});

type EndSettings = Pick<
  Settings,
  | 'notify'
  | 'graceMs'
  | 'drainTimeoutMs'
  | 'exitFile'
  | 'preemptedStatus'
  | 'requeue'
  | 'maxAttempts'
  | 'endRules'
>;

export function endOf(values: Values, { env, workdir }: Place): EndSettings {
  return {
    graceMs: values.of(END.grace) ?? defaultGraceMs(env),
    drainTimeoutMs: values.of(END['drain-timeout']),
    exitFile: values.path(END['exit-file']),
    preemptedStatus: values.of(END['preempted-status']),
    requeue: values.of(END.requeue) === undefined ? undefined : slurmJob(env),
    maxAttempts: values.of(END['max-attempts']),
    notify: values.of(END.notify),
    endRules: {
      requireResults: values.has(END['require-results']),
      doneWhen: values.parsed(END['done-when'], (text, source) => checkPattern(text, source, workdir)),
      againStatuses: values.each(END['again-status']),
      trustedStatuses: values.each(END['trust-exit']),
    },
  };
}

export function endContradictions(
  values: Values,
  settings: Settings,
  command: CommandName,
): readonly Mistake[] {
  return [
    ...withoutExitFile(values, settings, command),
    ...statuses(values, settings),
    ...requeue(values, settings),
    ...maxAttempts(values, settings),
  ];
}

/**
 * `watch` alone never learns how the task ended: what an end means would be obeyed by nobody. Variables are for all
 * containers of a pod, also for one without the file.
 */
function withoutExitFile(values: Values, { exitFile }: Settings, command: CommandName): readonly Mistake[] {
  if (command !== 'watch' || exitFile !== undefined) return [];
  const given = [END['preempted-status'], END['done-when'], END['again-status'], END['trust-exit']]
    .flatMap((option) => values.given(option)?.source ?? [])
    .filter((source) => source.startsWith('--'))
    .join(', ');
  if (given === '') return [];
  return [
    {
      message: `${given}: without --exit-file nobody tells capture watch how the task ended`,
      hint: `--exit-file <path>, where the task's side writes its exit status; or leave out ${given}`,
    },
  ];
}

/** `--again-status` implies `--trust-exit`; a status of `--trust-exit` alone is passed on as it is. */
function statuses(values: Values, { endRules }: Settings): readonly Mistake[] {
  const both = endRules.againStatuses.find((status) => endRules.trustedStatuses.includes(status));
  if (both === undefined) return [];
  const [again, trust] = [END['again-status'], END['trust-exit']].map(
    (option) => values.given(option)?.source,
  );
  return [
    {
      message: `status ${both} is named by ${again} and by ${trust}`,
      hint: 'leave out the second: what asks to be run again is trusted already',
    },
  ];
}

function requeue(values: Values, settings: Settings): readonly Mistake[] {
  const engine = values.given(END.requeue);
  if (engine?.values.at(-1) !== 'slurm' || settings.requeue !== undefined) return [];
  return [
    {
      message: `${engine.source} slurm: this is no job of Slurm (SLURM_JOB_ID is not set)`,
      hint: `leave out ${engine.source}, or submit a job script with sbatch`,
    },
  ];
}

/** The status that it gives up with must not ask to be run again, or nothing would ever end it. */
function maxAttempts(
  values: Values,
  { endRules, preemptedStatus, maxAttempts: most }: Settings,
): readonly Mistake[] {
  if (most === undefined || !endRules.againStatuses.includes(preemptedStatus)) return [];
  const limit = values.given(END['max-attempts'])?.source;
  const again = values.given(END['again-status'])?.source;
  return [
    {
      message: `${limit} ${most}: it would end with ${preemptedStatus} (${again}), which asks to be run again`,
      hint: `let the task say so with another status: --again-status ${preemptedStatus + 10}`,
    },
  ];
}
