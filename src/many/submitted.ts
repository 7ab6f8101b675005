// An array as a worker sees it, both for tasks in memory and for tasks in a queue.
import type { Tasks } from '../cli/job/tasks.ts';
import type { Settings } from '../model/format/settings.ts';
import type { TaskNeeds } from '../model/many/admission.ts';
import type { Halt } from '../model/many/halt.ts';
import type { Submission } from '../model/many/submission.ts';
import { clockMs } from '../native/clock.ts';

export interface GivenArray {
  readonly tasks: Tasks;
  readonly taskName: string;
  /** The settings of each run. */
  readonly settings: Settings;
  /** The options of each run as words, without those for its store and its name. */
  readonly options: readonly string[];
  readonly needs: TaskNeeds;
  readonly retries: number;
  readonly halt: Halt;
  readonly cwd: string;
}

/** The submission has no name, because there is no other one. */
export function submissionOf(array: GivenArray, size: number): Submission {
  const { tasks, taskName, settings, options, needs, retries, halt, cwd } = array;
  const { endRules, preemptedStatus, identity, to } = settings;
  return {
    format: 1,
    name: '',
    taskName,
    indices: { ranges: tasks.indices.ranges.map((range) => ({ ...range })) },
    size,
    jobsHoldTask: false,
    options: [...options, `--task-name=${taskName}`],
    store: { url: to.url, flags: [...to.flags], unfenced: to.unfenced },
    ...(identity.runId === undefined ? {} : { runId: identity.runId }),
    preemptedStatus,
    mayAskAgain: endRules.againStatuses.length > 0 || endRules.doneWhen !== undefined,
    cwd,
    capabilities: [],
    cores: needs.cores,
    ...(needs.memoryBytes === undefined ? {} : { memoryBytes: needs.memoryBytes }),
    retries,
    halt,
    priority: 0,
    after: [],
    submittedMs: clockMs(),
  };
}
