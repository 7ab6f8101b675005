// From a job of the queue to a running launcher: its command line, its environment and where it starts.
import { SHELL, templateOf } from '../../cli/job/tasks.ts';
import type { Scratch } from '../scratch.ts';
import type { Seats } from '../seats.ts';
import { mayShareSidecar, type SharedSidecar } from '../shared-sidecar.ts';
import { openSlot, type Slot } from '../slot.ts';
import type { Prepared } from './prepare.ts';
import type { QueueTask } from './ends.ts';

export interface TaskAround {
  readonly scratch: Pick<Scratch, 'workdirOf' | 'logOf' | 'lockFd'>;
  readonly env: NodeJS.ProcessEnv;
  readonly nice: number | undefined;
  /** The module that runs one task. */
  readonly entry: string;
  readonly sidecar: SharedSidecar;
  readonly ownChildren: Set<number>;
  readonly seats: Seats;
  /** Where each run hears of notices. */
  readonly notice: string;
  readonly prepared: Pick<Prepared, 'dirOf'>;
}

export function openTask(queued: QueueTask, around: TaskAround): Slot {
  const { number, submission, task } = queued;
  const { scratch, env, nice, entry, sidecar, ownChildren, seats, notice, prepared } = around;
  const dir = prepared.dirOf(submission);
  return openSlot({
    index: number,
    options: [
      ...submission.options,
      notice,
      // Only the store knows: another worker may have ended it, and the queue not have heard of it.
      '--skip-done',
      `--index=${task.index}`,
      `--workdir=${scratch.workdirOf(number)}`,
    ],
    argv: argvOf(queued, prepared),
    env: {
      ...env,
      ...task.values,
      CAPTURED_SUBMIT_DIR: submission.cwd,
      ...(dir === undefined ? {} : { CAPTURED_PREPARED_DIR: dir }),
    },
    cwd: dir ?? submission.cwd,
    logFile: scratch.logOf(number),
    sidecar: mayShareSidecar(task.values ?? {}) ? sidecar : undefined,
    lockFd: scratch.lockFd,
    nice,
    entry,
    preemptedStatus: submission.preemptedStatus,
    mayAskAgain: submission.mayAskAgain,
    ownChildren,
    seats,
  });
}

/** Throws if a placeholder has no value: then the job is none of this submission. */
export function argvOf(
  { submission, task }: QueueTask,
  prepared: Pick<Prepared, 'dirOf'>,
): readonly string[] {
  if (task.command !== undefined) return [...SHELL, task.command];
  const { command, cwd } = submission;
  if (command === undefined) throw new Error('its job has no command');
  // `./task` is that of the prepared directory, or of where it was submitted.
  const dir = prepared.dirOf(submission) ?? cwd;
  const template = templateOf(command, ['index', ...Object.keys(task.values ?? {})], dir);
  if (!('argvFor' in template)) throw new Error(template.map(({ message }) => message).join('; '));
  return template.argvFor({ ...task.values, index: String(task.index) });
}
