// The note at the start if other submissions have used the same prefix: one note for all, not one for each result that
// is stored again. Pure.
import type { History } from '../checkpoint/history.ts';
import { showPath, type RelPath } from '../path.ts';
import { plural } from '../units.ts';

/** How many of the newest runs are named. */
const MOST_RUNS = 3;
const REPLACED = 'a result with other content replaces the older one, which is kept as .~n~';
const PREFIX_EACH = 'give each submission a prefix: --to .../$SLURM_ARRAY_JOB_ID --from ...';

export interface SubmissionNote {
  readonly message: string;
  readonly hint: string;
  /** Results may be replaced. */
  readonly level: 'info' | 'warn';
}

export interface Submission {
  /** The number of this attempt: only lower-numbered attempts count. */
  readonly before: number;
  /** `--to` */
  readonly url: string;
  readonly isResult: (path: RelPath) => boolean;
}

/** A run's name in a message. */
export function describeRun(runId: string | undefined): string {
  return runId === undefined ? 'a run without --run' : `run ${showPath(runId)}`;
}

/** Undefined if no other submission used the prefix, and this is not a second one. */
export function submissionNote(history: History, submission: Submission): SubmissionNote | undefined {
  return otherRunsNote(history, submission) ?? doneNote(history, submission);
}

/** True if results of another submission exist, so replacing them is expected. */
export function expectsOlder(history: History, before: number): boolean {
  return history.foreignResults.size > 0 || doneAttempt(history, before) !== undefined;
}

function otherRunsNote(history: History, { before, url, isResult }: Submission): SubmissionNote | undefined {
  const earlier = history.attempts.filter(({ attempt }) => attempt < before);
  const newest = earlier.at(-1);
  // A later attempt of this run has already given the note.
  if (newest === undefined || newest.sameRun) return undefined;
  const { results, foreignResults, foreignCheckpoints } = history;
  const found = [
    ...(foreignResults.size > 0 ? [plural(foreignResults.size, 'result')] : []),
    ...(foreignCheckpoints > 0 ? [plural(foreignCheckpoints, 'checkpoint')] : []),
  ];
  if (found.length === 0) return undefined;
  const runs = [...new Set(earlier.filter(({ sameRun }) => !sameRun).map(({ runId }) => describeRun(runId)))];
  const replaced = [...foreignResults.keys()].some((path) => isResult(path) && !results.has(path));
  const back = newest.runId === undefined ? 'without --run' : `--run ${showPath(newest.runId)}`;
  return {
    message: `not used: ${found.join(' and ')} of this index from ${runs.slice(-MOST_RUNS).join(', ')} in ${url}${replaced ? `; ${REPLACED}` : ''}`,
    hint: `${PREFIX_EACH}; ${back} this run would go on with them`,
    level: replaced ? 'warn' : 'info',
  };
}

function doneNote(history: History, { before, url, isResult }: Submission): SubmissionNote | undefined {
  const done = doneAttempt(history, before);
  const results = [...history.results.keys()].filter(isResult).length;
  if (done === undefined || results === 0) return undefined;
  return {
    message: `this index was done in attempt ${done}, with ${plural(results, 'result')} in ${url}; ${REPLACED}`,
    hint: `--skip-done, if it need not run again; ${PREFIX_EACH}`,
    level: 'warn',
  };
}

/** The newest attempt of the same run, if it was done. */
function doneAttempt({ attempts }: History, before: number): number | undefined {
  const last = attempts.findLast(({ sameRun, attempt }) => sameRun && attempt < before);
  return last?.kind === 'done' ? last.attempt : undefined;
}
