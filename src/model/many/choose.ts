// From which submissions may this worker take a task now, and in which order? And if from none, why not: that is what
// `capture queue status` and the worker say. Memory only; times are arguments.
import { haltingOf } from './halt.ts';
import type { Submission } from './submission.ts';

/** What the queue has of one submission. Jobs that are done are gone. */
export interface QueueCounts {
  readonly waiting: number;
  readonly running: number;
  readonly failed: number;
}

export interface Seen {
  readonly submission: Submission;
  readonly counts: QueueCounts;
}

/** What a machine can do for others. */
export interface WorkerAbility {
  readonly capabilities: ReadonlySet<string>;
  /** Why these needs are too much for it, however idle it is; undefined: they are not. */
  readonly whyNever: (needs: Pick<Submission, 'cores' | 'memoryBytes'>) => string | undefined;
}

export type SubmissionState =
  | { readonly kind: 'ready' }
  /** Nothing waits; some run. */
  | { readonly kind: 'running' }
  /** Nothing waits, runs or has failed: the store is to be asked. */
  | { readonly kind: 'empty' }
  /** Nothing waits or runs, and some have failed. */
  | { readonly kind: 'failed' }
  | { readonly kind: 'over' }
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'halted'; readonly how: 'soon' | 'now' }
  | { readonly kind: 'after'; readonly names: readonly string[] };

/** Of one submission, whoever works. `all` are those that the queue holds. */
export function stateOfSubmission({ submission, counts }: Seen, all: readonly Seen[]): SubmissionState {
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

/** One that is not there may have been lost with what it waited for: nobody knows that it was over. */
function isOver(name: string, all: readonly Seen[]): boolean {
  return all.some(({ submission }) => submission.name === name && submission.overMs !== undefined);
}

/** Capabilities that a submission needs and this worker has not. */
export function lackingHere({ capabilities }: Submission, worker: WorkerAbility): readonly string[] {
  return capabilities.filter((one) => !worker.capabilities.has(one));
}

/** Those with something to take, in the order in which they are asked: by priority, then by age. */
export function inTurn(all: readonly Seen[]): readonly Submission[] {
  return all
    .filter((one) => stateOfSubmission(one, all).kind === 'ready')
    .map(({ submission }) => submission)
    .toSorted(byTurn);
}

/** The higher priority first, of two that are equal the older one. */
export function byTurn(a: Submission, b: Submission): number {
  return b.priority - a.priority || a.submittedMs - b.submittedMs;
}

/** Capabilities that submissions wait for, and no worker has. */
export function lackingEverywhere(
  all: readonly Seen[],
  workers: readonly { readonly capabilities: readonly string[] }[],
): ReadonlyMap<string, readonly string[]> {
  const lacking = new Map<string, string[]>();
  for (const { submission } of all.filter((one) => stateOfSubmission(one, all).kind === 'ready')) {
    // All of them at one worker: two that have one each run none.
    const runs = workers.some((worker) =>
      submission.capabilities.every((one) => worker.capabilities.includes(one)),
    );
    if (runs || submission.capabilities.length === 0) continue;
    const key = submission.capabilities.join(',');
    lacking.set(key, [...(lacking.get(key) ?? []), submission.name]);
  }
  return lacking;
}
