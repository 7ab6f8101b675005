// Why the task is asked to end: what the launcher says, and, if that is SIGTERM alone, what Slurm says about our job. From
// here, not from the launcher: of a child of the launcher that ends, the witness would think that it is one of the task.
import type { StopCause } from '../../model/format/stop-cause.ts';
import { isUnknown } from '../../model/format/stop-cause.ts';
import { SCONTROL_IGNORING_SIGNALS, slurmCause, type SlurmJob } from '../../model/format/slurm-job.ts';
import { askProgram } from '../../native/ask-program.ts';
import type { Needs } from '../run/context.ts';

/** A controller under load answers late. */
const ANSWERS_WITHIN_MS = 10_000;
/** The last record waits this long for the answer. */
const RECORD_WAITS_MS = 1000;

export class AskedToStop {
  readonly #context: Needs<'ledger' | 'settings' | 'signal'>;
  #asking: Promise<void> | undefined;

  constructor(context: Needs<'ledger' | 'settings' | 'signal'>) {
    this.#context = context;
  }

  /** Undefined: a notice was withdrawn. All later records name the cause. */
  because(cause: StopCause | undefined): void {
    const { ledger, settings } = this.#context;
    ledger.stop = cause;
    if (cause === undefined || !isUnknown(cause) || settings.slurmJob === undefined) return;
    this.#asking ??= this.#askSlurm(cause, settings.slurmJob);
  }

  /** Resolves when all is known, or soon. */
  async known(): Promise<void> {
    if (this.#asking === undefined) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, RECORD_WAITS_MS);
    });
    await Promise.race([this.#asking, late]);
    clearTimeout(timer);
  }

  async #askSlurm(unknown: StopCause, job: SlurmJob): Promise<void> {
    const { ledger, signal } = this.#context;
    const words = ['-c', SCONTROL_IGNORING_SIGNALS, 'scontrol', '-o', 'show', 'job', job.id];
    try {
      const shown = await askProgram('/bin/sh', words, { withinMs: ANSWERS_WITHIN_MS, signal });
      if (ledger.stop === unknown) ledger.stop = slurmCause(shown, job) ?? unknown;
    } catch {
      // Without an answer nothing more is known.
    }
  }
}
