// The launcher's last act for a preempted task: it asks Slurm to requeue the job. The exit status counts, so a failure
// here is only a warning.
import { reasonOf } from '../model/errors.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import { requeueRule, SCONTROL_IGNORING_SIGNALS, type SlurmJob } from '../model/format/slurm-job.ts';
import { askProgram } from '../native/ask-program.ts';
import { clockMs } from '../native/clock.ts';
import { noteOwnChild } from './own-children.ts';

/** For both calls together: a controller that does not answer must not keep the node busy. */
const ANSWERS_WITHIN_MS = 10_000;
/** Part of the 3 s that the grace leaves before SIGKILL: capture must have exited by then. */
const AFTER_DEADLINE_MS = 2000;
const LEAST_MS = 500;

type Say = (line: string, level: 'info' | 'warn', fields?: MessageFields) => void;

interface RequeueOptions {
  /** Running children that the launcher itself started; updated here. */
  readonly ownChildren: Set<number>;
  /** When capture is killed, ms since the epoch, if that is known. */
  readonly deadlineMs: number | undefined;
  readonly say: Say;
}

export async function requeue(
  job: SlurmJob,
  { ownChildren, deadlineMs, say }: RequeueOptions,
): Promise<void> {
  const endByMs = Math.min(clockMs() + ANSWERS_WITHIN_MS, (deadlineMs ?? Infinity) + AFTER_DEADLINE_MS);
  const ask = { ownChildren, endByMs };
  try {
    switch (requeueRule(await scontrol(['-o', 'show', 'job', job.id], ask), job)) {
      case 'requeued':
        return say(`Slurm has requeued job ${job.id} already`, 'info');
      case 'ended':
        return say(`job ${job.id} was cancelled: it is not requeued`, 'info');
      case 'requeue':
        await scontrol(['requeue', job.id], ask);
        return say(`job ${job.id} is requeued`, 'info');
    }
  } catch (error) {
    const hint = `scontrol requeue ${job.id}; scontrol must be in PATH, and the job submitted with --requeue`;
    say(`job ${job.id} could not be requeued: ${reasonOf(error)}`, 'warn', { hint });
  }
}

/** Its output. Throws with its error message if it fails or does not answer. */
function scontrol(
  args: readonly string[],
  { ownChildren, endByMs }: { readonly ownChildren: Set<number>; readonly endByMs: number },
): Promise<string> {
  return askProgram('/bin/sh', ['-c', SCONTROL_IGNORING_SIGNALS, 'scontrol', ...args], {
    withinMs: Math.max(LEAST_MS, endByMs - clockMs()),
    // Otherwise the reaper of orphans would take its exit status.
    started: (child) => noteOwnChild(child, ownChildren),
  });
}
