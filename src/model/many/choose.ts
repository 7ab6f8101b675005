// From which submissions this worker may take a task now, in which order, and if from none, why. `capture queue
// status` and the worker report that. In memory only; times are arguments.
import { haltingOf } from './halt.ts';
import type { Submission } from './submission.ts';

/** Jobs of one submission in the queue. Finished jobs are deleted. */
export interface QueueCounts {
  readonly waiting: number;
  readonly running: number;
  readonly failed: number;
}

export interface SeenSubmission {
  readonly submission: Submission;
  readonly counts: QueueCounts;
}

/** The resources and capabilities of a worker's machine. */
export interface WorkerAbility {
  readonly capabilities: ReadonlySet<string>;
  /** Why these needs exceed the machine even when it is idle; undefined: they do not. */
  readonly whyNever: (needs: Pick<Submission, 'cores' | 'memoryBytes'>) => string | undefined;
}

export type SubmissionState =
  | { readonly kind: 'ready' }
  /** Nothing waits; some run. */
  | { readonly kind: 'running' }
  /** Nothing waits, runs or has failed: the store decides whether all is done. */
  | { readonly kind: 'empty' }
  /** Nothing waits or runs, and some have failed. */
  | { readonly kind: 'failed' }
  | { readonly kind: 'over' }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'halted'; readonly how: 'soon' | 'now' }
  | { readonly kind: 'after'; readonly names: readonly string[] };

/** The state of one submission, whichever workers exist. `all`: every submission in the queue. */
export function stateOfSubmission(
  { submission, counts }: SeenSubmission,
  all: readonly SeenSubmission[],
): SubmissionState {
  const { cancelledMs, overMs, halt, size, after } = submission;
  if (cancelledMs !== undefined) return { kind: 'cancelled' };
  if (overMs !== undefined) return { kind: 'over' };
  const halting = haltingOf(halt, counts.failed, size);
  if (halting !== 'no') return { kind: 'halted', how: halting };
  const names = after.filter((name) => !isOver(name, all));
  if (names.length > 0) return { kind: 'after', names };
  if (counts.waiting > 0) return { kind: 'ready' };
  if (counts.running > 0) return { kind: 'running' };
  return { kind: counts.failed > 0 ? 'failed' : 'empty' };
}

/** A missing submission may have been lost with the ones it waited for: nobody knows that it was over. */
function isOver(name: string, all: readonly SeenSubmission[]): boolean {
  return all.some(({ submission }) => submission.name === name && submission.overMs !== undefined);
}

/** Capabilities that a submission needs and this worker lacks. */
export function lackingHere({ capabilities }: Submission, worker: WorkerAbility): readonly string[] {
  return capabilities.filter((one) => !worker.capabilities.has(one));
}

/** Submissions with waiting tasks, in the order in which workers try them: by priority, then by age. */
export function inTurn(all: readonly SeenSubmission[]): readonly Submission[] {
  return all
    .filter((one) => stateOfSubmission(one, all).kind === 'ready')
    .map(({ submission }) => submission)
    .toSorted(byTurn);
}

/** The higher priority first; of two equal ones, the older. */
export function byTurn(a: Submission, b: Submission): number {
  return b.priority - a.priority || a.submittedMs - b.submittedMs;
}

/** Capabilities that submissions wait for and no worker has. */
export function lackingEverywhere(
  all: readonly SeenSubmission[],
  workers: readonly { readonly capabilities: readonly string[] }[],
): ReadonlyMap<string, readonly string[]> {
  const lacking = new Map<string, string[]>();
  for (const { submission } of all.filter((one) => stateOfSubmission(one, all).kind === 'ready')) {
    // One worker needs all of them: two workers with one each cannot run the task.
    const runs = workers.some((worker) =>
      submission.capabilities.every((one) => worker.capabilities.includes(one)),
    );
    if (runs || submission.capabilities.length === 0) continue;
    const key = submission.capabilities.join(',');
    lacking.set(key, [...(lacking.get(key) ?? []), submission.name]);
  }
  return lacking;
}
