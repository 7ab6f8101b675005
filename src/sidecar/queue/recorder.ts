// When `stored` records are written: together while nobody waits for them, at once if somebody does (a reclaim, the
// drain), and once an hour without news, as a sign of life. A record that fails is retried; until it is written, the
// results in it are not reclaimed.
import { reasonOf } from '../../model/errors.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import type { Needs } from '../run/context.ts';

type RecorderContext = Needs<'settings' | 'log' | 'ledger' | 'signal' | 'outage'>;

const BACK_OFF: BackOff = { firstMs: 10_000, mostMs: 300_000 };
/** With `--reclaim now` a record comes before each deletion, but never more often than this. */
const EAGER: BackOff = { firstMs: 500, mostMs: 500 };
/** This many results are recorded at once: results that no record names are kept in memory. */
const MOST_UNRECORDED = 4000;
/**
 * A running attempt writes a record at least this often. `capture status` takes an attempt for killed if it wrote none
 * for twice as long (array/state).
 */
const SIGN_OF_LIFE_MS = 3_600_000;

export class Recorder {
  readonly #context: RecorderContext;
  readonly #afterRecord: () => Promise<void>;
  readonly #backOff: BackOff;
  #pauses = 0;
  #timer: NodeJS.Timeout | undefined;
  #sign: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;
  #stopped = false;
  #hasFailed = false;

  /** Calls `afterRecord` after each record: deletes obsolete objects, reclaims. */
  constructor(context: RecorderContext, afterRecord: () => Promise<void>) {
    this.#context = context;
    this.#afterRecord = afterRecord;
    this.#backOff = context.settings.reclaim === 'now' ? EAGER : BACK_OFF;
  }

  /** From now on there is a sign of life each hour. */
  begin(): void {
    this.#signAfter(SIGN_OF_LIFE_MS);
  }

  /** Something was stored that no record names yet. */
  due(): void {
    if (this.#stopped || this.#writing !== undefined) return;
    // After a failure it waits: some records fail before any request, and would fail again at once.
    if (this.#context.ledger.unrecordedCount >= MOST_UNRECORDED && !this.#hasFailed) return void this.now();
    if (this.#timer !== undefined) return;
    const pauseMs = pauseAfter(this.#backOff, this.#pauses);
    this.#pauses += 1;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.now();
    }, pauseMs);
  }

  /** Writes everything that is not recorded yet. Resolves once the record is written or has failed; never throws. */
  now(): Promise<void> {
    return this.#now(false);
  }

  async #now(isSign: boolean): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    // No record may follow the one that closes the attempt.
    if (!this.#stopped)
      this.#writing ??= this.#write(isSign).finally(() => {
        this.#writing = undefined;
        if (this.#context.ledger.unrecordedCount > 0) this.due();
      });
    await this.#writing;
  }

  /** Begins no further record, and waits for the one under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#sign);
    await this.#writing;
  }

  #signAfter(ms: number): void {
    this.#sign = setTimeout(() => void this.#giveSign(), ms);
  }

  async #giveSign(): Promise<void> {
    const { ledger } = this.#context;
    const leftMs = (): number => SIGN_OF_LIFE_MS - (performance.now() - ledger.writtenMs);
    if (leftMs() <= 0) await this.#now(true);
    if (!this.#stopped) this.#signAfter(leftMs() > 0 ? leftMs() : BACK_OFF.mostMs);
  }

  async #write(isSign: boolean): Promise<void> {
    const { ledger, log, outage, signal } = this.#context;
    try {
      if (isSign || ledger.unrecordedCount > 0) await ledger.write('stored', {}, signal);
      this.#hasFailed = false;
      await this.#afterRecord();
    } catch (error) {
      this.#hasFailed = true;
      // The user knows about an outage already.
      if (!signal.aborted && !outage.isKnown)
        log.warn(`a record could not be written and is tried again: ${reasonOf(error)}`);
    }
  }
}
