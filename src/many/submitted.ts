// What an array is to a worker, whether its tasks wait in memory or in a queue.
import type { Tasks } from '../cli/job/tasks.ts';
import type { Settings } from '../model/format/settings.ts';
import type { TaskNeeds } from '../model/many/admission.ts';
import type { Halt } from '../model/many/halt.ts';
import type { Submission } from '../model/many/submission.ts';
import { clockMs } from '../native/clock.ts';

export interface GivenArray {
  readonly tasks: Tasks;
  readonly taskName: string;
  /** Of each run. */
  readonly settings: Settings;
  /** Of each run, as words: all but its store's and its name's. */
  readonly options: readonly string[];
  readonly needs: TaskNeeds;
  readonly retries: number;
  readonly halt: Halt;
  readonly cwd: string;
}

/** Without a name: nobody else is there. */
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
