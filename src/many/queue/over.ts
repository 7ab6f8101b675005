// A submission of which nothing waits, runs or has failed: is it over? Only the store knows. What is not done there, and
// gives no sign of life, Redis has lost: it goes into the queue again.
import { openHeard } from '../../array/place.ts';
import { STALE_AFTER_MS, statesOf } from '../../array/state.ts';
import { survey } from '../../array/survey.ts';
import type { Log } from '../../log/log.ts';
import { QUEUE_FORMAT, type Submission } from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import type { WorkerBroker } from './broker.ts';

/** What the store says of the indices of a submission. */
export interface StoredState {
  readonly done: number;
  /** At work in some attempt, by its signs of life. */
  readonly alive: readonly number[];
  /** Neither. */
  readonly left: readonly number[];
}

export async function storedState(
  submission: Submission,
  log: Log,
  signal: AbortSignal,
): Promise<StoredState> {
  const { store: settings, taskName, indices } = submission;
  const { store, close } = await openHeard({ settings, taskName }, { log });
  try {
    const found = await survey({ store, taskName }, clockMs(), signal);
    const [left, alive]: [number[], number[]] = [[], []];
    let done = 0;
    for (const { index, state } of statesOf(found, STALE_AFTER_MS, indices)) {
      if (state === 'done') done += 1;
      else if (state === 'running') alive.push(Number(index));
      else left.push(Number(index));
    }
    return { done, alive, left };
  } finally {
    await close();
  }
}

interface Around {
  readonly broker: Pick<WorkerBroker, 'add' | 'put' | 'tell'>;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Resolves to true if it is over. */
export async function closeIfOver(submission: Submission, { broker, log, signal }: Around): Promise<boolean> {
  const { name, runId, jobsHoldTask } = submission;
  // Which of an index's records are of this run id, only the run itself looks at: the queue is believed.
  if (runId === undefined) {
    const { alive, left } = await storedState(submission, log, signal);
    if (left.length > 0 && jobsHoldTask) {
      log.warn(`${name}: ${left.length} of its tasks are neither done nor in the queue`, {
        hint: 'give the same capture submit again, with --again',
      });
      return false;
    }
    if (left.length > 0) {
      log.warn(
        `${name}: ${left.length} of its tasks are neither done nor in the queue: they are put there again`,
      );
      const lost = left.map((index) => ({ format: QUEUE_FORMAT, index }) as const);
      await broker.add(submission, lost, signal);
      return false;
    }
    if (alive.length > 0) return false;
  }
  await broker.put({ ...submission, overMs: clockMs() });
  if (submission.notify !== undefined) await broker.tell({ submission: name, event: 'all-done' });
  log.info(`${name}: all are done`);
  return true;
}
