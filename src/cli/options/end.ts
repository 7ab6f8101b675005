// The options for the end of the task: what it means, and how long it may take.
import { RUNNER_VARIABLE } from '../../model/format/shared-sidecar.ts';
import type { Settings } from '../../model/format/settings.ts';
import { defaultGraceMs } from '../../scheduler/grace.ts';
import { slurmJob } from '../../scheduler/slurm-job.ts';
import { checkPattern } from './patterns.ts';
import { MESSAGES, NOTIFY_OPTION } from './messages.ts';
import { absolutePath, choice, count, durationMs } from './readers.ts';
import { CAPTURING, type RunName, group, RUN } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

const exitStatus = count(1, 255);

export const END = group('End of the task:', {
  graceMs: {
    flags: '--grace <duration>',
    help: 'time between SIGTERM and SIGKILL',
    on: CAPTURING,
    read: durationMs(),
    otherwise: "the platform's time minus 3s, elsewhere 27s",
  },
  drainTimeoutMs: {
    flags: '--drain-timeout <duration>',
    help: 'time to store what is left after the task has ended by itself',
    on: CAPTURING,
    read: durationMs(),
    default: '1h',
  },
  exitFile: {
    flags: '--exit-file <path>',
    help: "the task's side writes its exit status there: it ends the watch (restore removes an old one)",
    on: ['watch', 'restore'],
    read: absolutePath,
  },
  preemptedStatus: {
    flags: '--preempted-status <n>',
    help: 'exit status that asks to be run again, 1 to 255',
    on: CAPTURING,
    read: exitStatus,
    default: '75',
  },
  requeue: {
    flags: '--requeue <engine>',
    help: 'slurm: run scontrol requeue as the last step of a preempted run',
    on: RUN,
    read: choice('slurm'),
  },
  maxAttempts: {
    flags: '--max-attempts <n>',
    help: "after so many attempts without a newer checkpoint, exit with the task's status",
    on: RUN,
    read: count(1, Infinity),
    otherwise: 'no limit',
  },
  requireResults: {
    flags: '--require-results',
    help: 'exit 74 if no file ever matched a pattern of --results',
    on: CAPTURING,
  },
  doneWhen: {
    flags: '--done-when <pattern>',
    help: 'the result that counts: if it is missing, a task that exits 0 asks to be run again',
    on: CAPTURING,
  },
  againStatuses: {
    flags: '--again-status <n>',
    kind: 'list',
    help: 'exit status of the task that means "checkpointed, run me again", 1 to 255; repeatable',
    on: CAPTURING,
    read: exitStatus,
  },
  trustedStatuses: {
    flags: '--trust-exit <n>',
    kind: 'list',
    help: 'exit status of the task that means "I have closed my files", 1 to 255; repeatable',
    on: CAPTURING,
    read: exitStatus,
  },
  notify: {
    ...NOTIFY_OPTION,
    help: 'report the end of the run to a URL (a POST of JSON) or a command (JSON on stdin)',
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
  | 'slurmJob'
  | 'requeue'
  | 'maxAttempts'
  | 'endRules'
>;

export function endOf(values: Values, { env, workdir }: RunCaller): EndSettings {
  const { graceMs = defaultGraceMs(env), requeue: engine, ...end } = values.all(END);
  const { requireResults, againStatuses, trustedStatuses } = end;
  const { drainTimeoutMs, exitFile, preemptedStatus, maxAttempts, notify } = end;
  const job = slurmJob(env);
  const doneWhen = values.parsed(END.doneWhen, (text, source) => checkPattern(text, source, workdir));
  return {
    graceMs,
    drainTimeoutMs,
    exitFile,
    preemptedStatus,
    // Inside a job, it is the runner that Slurm stops.
    slurmJob: env[RUNNER_VARIABLE] === undefined ? job : undefined,
    requeue: engine === undefined ? undefined : job,
    maxAttempts,
    notify,
    endRules: { requireResults, doneWhen, againStatuses, trustedStatuses },
  };
}

export function refuseEnds(values: Values, settings: Settings, command: RunName): void {
  if (command === 'watch') refuseWithoutExitFile(values, settings);
  refuseTwiceNamed(values, settings);
  refuseRequeue(values, settings);
  refuseEndless(values, settings);
}

/**
 * `watch` alone never learns how the task ended, so options about the end would have no effect. Variables are allowed,
 * because all containers of a pod share them, also containers without the file.
 */
function refuseWithoutExitFile(values: Values, { exitFile }: Settings): void {
  if (exitFile !== undefined) return;
  const given = [END.preemptedStatus, END.doneWhen, END.againStatuses, END.trustedStatuses]
    .flatMap((option) => values.given(option)?.source ?? [])
    .filter((source) => source.startsWith('--'))
    .join(', ');
  if (given === '') return;
  values.refuse(
    `${given}: without --exit-file nobody tells capture watch how the task ended`,
    `--exit-file <path>, where the task's side writes its exit status; or leave out ${given}`,
  );
}

/** `--again-status` implies `--trust-exit`. A status that only `--trust-exit` names is passed on unchanged. */
function refuseTwiceNamed(values: Values, { endRules }: Settings): void {
  const both = endRules.againStatuses.find((status) => endRules.trustedStatuses.includes(status));
  if (both === undefined) return;
  const [again, trust] = [END.againStatuses, END.trustedStatuses].map(
    (option) => values.given(option)?.source,
  );
  values.refuse(
    `status ${both} is named by ${again} and by ${trust}`,
    'leave out the second: what asks to be run again is trusted already',
  );
}

function refuseRequeue(values: Values, settings: Settings): void {
  const engine = values.given(END.requeue);
  // A dry run is done before the job is submitted.
  if (engine?.values.at(-1) !== 'slurm' || settings.requeue !== undefined || values.has(MESSAGES.dryRun))
    return;
  values.refuse(
    `${engine.source} slurm: this is no job of Slurm (SLURM_JOB_ID is not set)`,
    `leave out ${engine.source}, or submit a job script with sbatch`,
  );
}

/** The status with which capture gives up must not request another run. Otherwise the task would never end. */
function refuseEndless(values: Values, { endRules, preemptedStatus, maxAttempts: most }: Settings): void {
  if (most === undefined || !endRules.againStatuses.includes(preemptedStatus)) return;
  const limit = values.given(END.maxAttempts)?.source;
  const again = values.given(END.againStatuses)?.source;
  values.refuse(
    `${limit} ${most}: it would end with ${preemptedStatus} (${again}), which asks to be run again`,
    `let the task say so with another status: --again-status ${preemptedStatus + 10}`,
  );
}
