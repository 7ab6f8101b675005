// The last record of a start that fails after its claim. Without it the index would count as running until its claim is
// stale, and then as killed, although nothing runs and the reason is known.
import type { History } from '../../model/checkpoint/history.ts';
import { failureOf, isFull } from '../../model/errors.ts';
import type { Settings } from '../../model/format/settings.ts';
import { DISK_FULL } from '../../model/format/stop-cause.ts';
import { startTimer } from '../../native/clock.ts';
import type { Ledger } from '../../records/ledger.ts';

/** A store that does not answer must not hold up the exit for longer, ms. */
const WITHIN_MS = 5000;

export class Refusal {
  #ledger: Ledger | undefined;
  #wasDone = false;

  /** The attempt is claimed, and the records of earlier ones are read. */
  opened(ledger: Ledger, { attempts }: Pick<History, 'attempts'>): void {
    this.#ledger = ledger;
    const last = attempts.findLast(({ kind }) => kind !== 'started');
    this.#wasDone = last?.kind === 'done' && last.sameRun;
  }

  /**
   * The start has failed: writes the attempt's last record, with the reason. An attempt that knows no earlier records must
   * not write one, as the next start would believe it; and an index that is done stays done. Never throws.
   */
  async record(error: unknown, { preemptedStatus }: Pick<Settings, 'preemptedStatus'>): Promise<void> {
    const ledger = this.#ledger;
    if (ledger === undefined || (this.#wasDone && ledger.unrecordedCount === 0)) return;
    const late = new AbortController();
    const timer = startTimer(WITHIN_MS, () => late.abort());
    const { status, message: reason } = failureOf(error);
    try {
      ledger.restored = undefined; // No task has failed from it: it does not speak against the checkpoint.
      await ledger.write(
        status === preemptedStatus ? 'preempted' : 'failed',
        { end: { status, reason, why: isFull(error) ? DISK_FULL : undefined } },
        late.signal,
      );
    } catch {
      // The user reads why the start has failed.
    } finally {
      timer.cancel();
    }
  }
}
