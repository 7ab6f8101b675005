// A person needs the machine. Running tasks are frozen, or checkpoint and go back to the queue, until the person
// resumes the worker or the time is over. If there are several reasons to pause, the pause lasts until all have ended.
import type { StopCause } from '../../model/format/stop-cause.ts';
import { startTimer, type LongTimer } from '../../native/clock.ts';
import type { Worker } from '../work.ts';

const PAUSED: StopCause = { why: 'paused', reason: 'the worker was paused' };

export type HowToPause = 'stop' | 'checkpoint';
/** `person`: `capture worker pause`. `use`: somebody uses the machine (--when-idle). */
type Reason = 'person' | 'use';

interface Paused {
  readonly runner: Pick<Worker['runner'], 'pause' | 'freeze' | 'thaw' | 'giveBack'>;
  readonly prepared: Pick<Worker['prepared'], 'hold'>;
}

export class Pausing {
  readonly #runner: Paused['runner'];
  readonly #prepared: Paused['prepared'];
  readonly #reasons = new Map<Reason, LongTimer | undefined>();

  constructor({ runner, prepared }: Paused) {
    this.#runner = runner;
    this.#prepared = prepared;
  }

  get isPaused(): boolean {
    return this.#reasons.size > 0;
  }

  /** `forMs` undefined: until it is resumed. */
  pause(reason: Reason, how: HowToPause, forMs?: number): void {
    this.#reasons.get(reason)?.cancel();
    const timer = forMs === undefined ? undefined : startTimer(forMs, () => this.resume(reason));
    this.#reasons.set(reason, timer);
    this.#hold(true);
    if (how === 'stop') this.#runner.freeze();
    else this.#runner.giveBack(() => PAUSED);
  }

  resume(reason: Reason): void {
    this.#reasons.get(reason)?.cancel();
    if (!this.#reasons.delete(reason) || this.isPaused) return;
    this.#runner.thaw();
    this.#hold(false);
  }

  close(): void {
    for (const timer of this.#reasons.values()) timer?.cancel();
    this.#runner.thaw();
  }

  /** If `isHeld`, nothing starts from now on; otherwise tasks may start again. */
  #hold(isHeld: boolean): void {
    this.#runner.pause(isHeld);
    this.#prepared.hold(isHeld);
  }
}
