// How the run ended: which record is the attempt's last, and capture's exit status. Pure. Every path to exit status 0
// goes through here, because the status must tell the truth.
import type { AttemptEnd } from '../checkpoint/history.ts';
import { restoreOrder } from '../checkpoint/restore-order.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../exit-status.ts';
import { compileGlob, parsePattern } from '../file/manifest.ts';
import type { EndFields } from '../format/message-fields.ts';
import type { TaskEnd } from '../format/messages.ts';
import type { Generation, LeftFile } from '../format/records.ts';
import type { EndRules } from '../format/settings.ts';
import { type RelPath, showPath } from '../path.ts';

/** The reason if the launcher was killed: `end` is then not the task's. */
export const LAUNCHER_LOST = 'launcher lost';

export interface Outcome {
  /** Undefined if nobody can know (`watch` without a report from the task). */
  readonly task: TaskOutcome | undefined;
  /** A notice or SIGTERM came. */
  readonly preempted: boolean;
  /** Declared files that the task closed and that are not stored; with `--require-results` also missing ones. */
  readonly left: readonly LeftFile[];
  /** Everything required is stored, by this attempt or an earlier one: see {@link isComplete}. */
  readonly complete: boolean;
  readonly rules: EndRules;
  readonly preemptedStatus: ExitStatus;
  /** Why the task must not run again although it was preempted or asks to. */
  readonly exhausted?: string | undefined;
}

export type TaskOutcome = { readonly code: number } | { readonly signalNumber: number };

export interface Verdict {
  readonly kind: EndFields['kind'];
  readonly status: ExitStatus;
  /** The reason, if the status alone does not tell it. */
  readonly reason?: string | undefined;
}

/** The task's end as a shell reports it: its exit code, or 128+N if signal N ended it. */
export function statusOfTask(task: TaskOutcome): ExitStatus {
  return 'code' in task ? task.code : statusOfSignal(task.signalNumber);
}

/** True if the task has closed its files itself, so the kernel closed none for a dying process. */
export function closedItsFiles(task: TaskOutcome, rules: EndRules): boolean {
  const status = statusOfTask(task);
  return status === EXIT.ok || rules.againStatuses.includes(status) || rules.trustedStatuses.includes(status);
}

export function verdictOf(outcome: Outcome): Verdict {
  const { task, preempted, left, complete, rules, preemptedStatus, exhausted } = outcome;
  if (task === undefined) return { kind: 'ended', status: left.length > 0 ? EXIT.notStored : EXIT.ok };
  const status = statusOfTask(task);
  const again = (why?: string): Verdict =>
    exhausted === undefined
      ? { kind: 'preempted', status: preemptedStatus, ...(why === undefined ? {} : { reason: why }) }
      : // A task that ended with 0 but is to run again has not finished its work: that is not a success.
        { kind: 'failed', status: status === EXIT.ok ? EXIT.notStored : status, reason: exhausted };
  if (rules.againStatuses.includes(status)) return again(`the task ended with ${status} (--again-status)`);
  if (preempted && (status !== EXIT.ok || !complete)) return again();
  if (status !== EXIT.ok) return { kind: 'failed', status };
  // The user has named the result that counts: a task that ends without it has not done its work.
  if (rules.doneWhen !== undefined && !complete) {
    return again(`no ${showPath(rules.doneWhen)} is stored (--done-when)`);
  }
  if (left.length > 0) return { kind: 'failed', status: EXIT.notStored };
  return { kind: 'done', status: EXIT.ok };
}

/**
 * Is everything stored that is required? `--done-when` names it. Otherwise it is every exactly named result, and with
 * `--require-results` every pattern.
 */
export function isComplete(
  rules: EndRules,
  stored: { readonly doneWhen: boolean; readonly everyName: boolean; readonly everyPattern: boolean },
): boolean {
  if (rules.doneWhen !== undefined) return stored.doneWhen;
  return stored.everyName && (stored.everyPattern || !rules.requireResults);
}

/**
 * `failed: the task ended with 3`, `failed: SIGSEGV ended the task, exit 139`, `to be run again, exit 75: SIGTERM`;
 * undefined if the run has not failed. `end` is undefined if nobody knows how the task ended. `because`: why it ended
 * so, if known.
 */
export function verdictLine(
  { kind, status, reason }: Verdict,
  end: Pick<TaskEnd, 'code' | 'signal'> | undefined,
  because: string | undefined,
): string | undefined {
  if (kind === 'preempted')
    return `to be run again, exit ${status}: ${reason ?? because ?? 'it was stopped'}`;
  if (kind !== 'failed') return undefined;
  if (reason !== undefined) return `failed, exit ${status}, not to be run again: ${reason}`;
  const why = because ?? howItEnded(end);
  if (why === undefined) return `failed, exit ${status}`;
  return end?.code === status ? `failed: ${why}` : `failed: ${why}, exit ${status}`;
}

/** Undefined if the task itself did not fail. */
function howItEnded(end: Pick<TaskEnd, 'code' | 'signal'> | undefined): string | undefined {
  if (end?.signal !== undefined) return `${end.signal} ended the task`;
  return end === undefined || end.code === 0 ? undefined : `the task ended with ${end.code}`;
}

/** The patterns that match none of the paths, in the user's order. */
export function unmatched(patterns: readonly string[], paths: Iterable<RelPath>): readonly string[] {
  let left = patterns.map((pattern) => ({ pattern, matches: matcherOf(pattern) }));
  for (const path of paths) {
    if (left.length === 0) break;
    if (left.some(({ matches }) => matches(path))) left = left.filter(({ matches }) => !matches(path));
  }
  return left.map(({ pattern }) => pattern);
}

/** A name without a wildcard is that file, or everything below it. */
function matcherOf(text: string): (path: RelPath) => boolean {
  const pattern = parsePattern(text);
  if (pattern.kind !== 'named') return compileGlob(pattern.text).matches;
  const { name, directory } = pattern;
  const below = `${name}/`;
  return (path) => path.startsWith(below) || (!directory && path === name);
}

/**
 * The number of attempts of this run, including this one, since the one that made the checkpoint from which the next
 * attempt would resume; 0 if this one made it. Attempts before a done one do not count.
 *
 * @param generations all that this attempt knows, including its own.
 * @param verified checkpoints are checked at restore, so the next attempt may resume from a suspect one.
 */
export function attemptsInVain(
  earlier: readonly AttemptEnd[],
  generations: readonly Generation[],
  attempt: number,
  verified: boolean,
): number {
  const [next] = restoreOrder(generations, verified);
  const same = earlier.filter(({ sameRun }) => sameRun);
  const done = same.findLast(({ kind }) => kind === 'done');
  const since = Math.max(next?.attempt ?? 0, done?.attempt ?? 0);
  if (since >= attempt) return 0;
  return 1 + same.filter((end) => end.attempt > since && end.attempt < attempt).length;
}
