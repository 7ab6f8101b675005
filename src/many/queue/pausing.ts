// A person needs the machine: what runs is frozen, or checkpoints and goes back to the queue, until they say otherwise or
// the time is over. Of several reasons to pause each must end.
import { startTimer, type LongTimer } from '../../native/clock.ts';

export type HowToPause = 'stop' | 'checkpoint';
/** `person`: `capture worker pause`. `use`: somebody uses the machine (--when-idle). */
type Reason = 'person' | 'use';

export interface PauseActions {
  /** From now on nothing is started, or it may be again. */
  readonly hold: (isHeld: boolean) => void;
  readonly freeze: () => void;
  readonly thaw: () => void;
  /** Each task checkpoints and ends, also one that is frozen. */
  readonly giveBack: () => void;
}

export class Pausing {
  readonly #actions: PauseActions;
  readonly #reasons = new Map<Reason, LongTimer | undefined>();

  constructor(actions: PauseActions) {
    this.#actions = actions;
  }

  get isPaused(): boolean {
    return this.#reasons.size > 0;
  }

  /** `forMs` undefined: until it is resumed. */
  pause(reason: Reason, how: HowToPause, forMs?: number): void {
    this.#reasons.get(reason)?.cancel();
    const timer = forMs === undefined ? undefined : startTimer(forMs, () => this.resume(reason));
    this.#reasons.set(reason, timer);
    this.#actions.hold(true);
    if (how === 'stop') this.#actions.freeze();
    else this.#actions.giveBack();
  }

  resume(reason: Reason): void {
    this.#reasons.get(reason)?.cancel();
    if (!this.#reasons.delete(reason) || this.isPaused) return;
    this.#actions.thaw();
    this.#actions.hold(false);
  }

  close(): void {
    for (const timer of this.#reasons.values()) timer?.cancel();
    this.#actions.thaw();
  }
}
