// How the run ended: which record closes the attempt and what capture exits with. Pure; the exit status
// tells the truth, so every way to 0 passes through here.
import { EXIT, statusOfSignal, type ExitStatus } from './exit-status.ts';
import type { LeftFile, RecordKind } from './records.ts';

export interface Outcome {
  /** Undefined when nobody can know (`watch` without word from the task). */
  readonly task: { readonly code: number } | { readonly signalNumber: number } | undefined;
  /** A notice or SIGTERM came. */
  readonly preempted: boolean;
  /** Declared files that the task closed and that are not stored. */
  readonly left: readonly LeftFile[];
  /** Every exactly named result has been stored, in this attempt or before. */
  readonly allNamedStored: boolean;
  readonly preemptedStatus: ExitStatus;
}

export interface Verdict {
  readonly kind: RecordKind;
  readonly status: ExitStatus;
}

export function verdictOf(outcome: Outcome): Verdict {
  const { task, preempted, left, allNamedStored, preemptedStatus } = outcome;
  if (task === undefined) return { kind: 'ended', status: left.length > 0 ? EXIT.notStored : EXIT.ok };
  const status = 'code' in task ? task.code : statusOfSignal(task.signalNumber);
  if (preempted && (status !== EXIT.ok || !allNamedStored))
    return { kind: 'preempted', status: preemptedStatus };
  if (status !== EXIT.ok) return { kind: 'failed', status };
  if (left.length > 0) return { kind: 'failed', status: EXIT.notStored };
  return { kind: 'done', status: EXIT.ok };
}
