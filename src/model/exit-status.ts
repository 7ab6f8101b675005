// Every exit status that capture itself can end with; any other is the task's own. The numbers follow sysexits.h where
// it has a name for the case.

export const EXIT = {
  ok: 0,
  /** An option, pattern or environment value is wrong; nothing was started. */
  usage: 64,
  /** An input is neither in the work directory nor in the store; nothing was started. */
  inputMissing: 66,
  /** The store or the work directory cannot be used, or no recorded checkpoint can be restored. */
  unavailable: 69,
  /** capture itself failed: a bug. */
  internal: 70,
  /** The task succeeded, but something that was closed is not stored. */
  notStored: 74,
  /** Preempted: run me again. */
  preempted: 75,
  /** Another attempt has taken over this index: do not run me again. */
  fenced: 76,
  notExecutable: 126,
  notFound: 127,
} as const;

export type ExitStatus = number;

/** As a shell reports it: 128+N if signal N ended the process. */
export function statusOfSignal(signalNumber: number): ExitStatus {
  return 128 + signalNumber;
}

/**
 * The signal that a status may stand for, by the shell's rule (128+N); undefined for a status of the program's own.
 */
export function signalOfStatus(status: ExitStatus): number | undefined {
  return status > 128 && status <= statusOfSignal(64) ? status - 128 : undefined;
}
