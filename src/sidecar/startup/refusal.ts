// What a start that fails after its claim leaves in the store. Without it the index would count as running until its
// claim is stale, and then as killed, although nothing runs and the reason is known.
import type { History } from '../../model/checkpoint/history.ts';
import { failureOf } from '../../model/errors.ts';
import { type KeyScope, parseRecordKey, recordKey } from '../../model/format/keys.ts';
import { isLast, RECORD_KINDS } from '../../model/format/records.ts';
import type { Settings } from '../../model/format/settings.ts';
import { startTimer } from '../../native/clock.ts';
import type { Ledger } from '../../records/ledger.ts';
import { listRecords } from '../../records/list.ts';
import type { Store } from '../../store/contract/store.ts';

/** A store that does not answer must not hold up the exit for longer, ms. */
const WITHIN_MS = 5000;

const LAST_KINDS = new Set<string>(RECORD_KINDS.filter(isLast));

interface Claim {
  readonly store: Store;
  readonly scope: KeyScope;
  readonly attempt: number;
}

/** What the start has made in the store so far. */
export class Refusal {
  #claim: Claim | undefined;
  #ledger: Ledger | undefined;
  #wasDone = false;

  /** The claim is stored. */
  claimed(claim: Claim): void {
    this.#claim = claim;
  }

  /** The records of earlier attempts are read. */
  opened(ledger: Ledger, { attempts }: Pick<History, 'attempts'>): void {
    this.#ledger = ledger;
    const last = attempts.findLast(({ kind }) => kind !== 'started');
    this.#wasDone = last?.kind === 'done' && last.sameRun;
  }

  /**
   * The start has failed: writes the attempt's last record, with the reason. An attempt that knows no records must not
   * write one, as the next start would believe it; and an index that is done stays done: then the attempt's own records
   * are deleted. Never throws. If the store does not answer, the claim stays.
   */
  async record(error: unknown, { preemptedStatus }: Pick<Settings, 'preemptedStatus'>): Promise<void> {
    const claim = this.#claim;
    const ledger = this.#ledger;
    if (claim === undefined) return;
    const late = new AbortController();
    const timer = startTimer(WITHIN_MS, () => late.abort());
    try {
      const isUnchanged = ledger === undefined || (this.#wasDone && ledger.unrecordedCount === 0);
      if (isUnchanged) return await withdraw(claim, late.signal);
      const { status, message: reason } = failureOf(error);
      const kind = status === preemptedStatus ? 'preempted' : 'failed';
      ledger.restored = undefined; // No task has failed from it: it does not speak against the checkpoint.
      await ledger.write(kind, { end: { status, reason } }, late.signal);
    } catch {
      // The user reads why the start has failed.
    } finally {
      timer.cancel();
    }
  }
}

/** The attempt stands for nothing: deletes its records. */
async function withdraw({ store, scope, attempt }: Claim, signal: AbortSignal): Promise<void> {
  const { keys, newestAttempt } = await listRecords(store, scope, signal);
  if (newestAttempt > attempt) return; // that attempt may be reading them
  const before = keys.map(parseRecordKey).findLast((at) => at !== undefined && at.attempt < attempt);
  // If it is still at work, and was taken for dead, this claim is what fences it.
  const isFencing = before !== undefined && !LAST_KINDS.has(before.kind);
  const claim = recordKey(scope, attempt, 0, 'started');
  const own = keys.filter((key) => key !== claim && parseRecordKey(key)?.attempt === attempt);
  await store.delete(isFencing ? own : [...own, claim], signal);
}
