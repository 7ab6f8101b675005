// Timers that know about job control: if the run is stopped for a while, every timer ends that much later, so that
// nothing is killed for having slept. They never hold the process open.
import { clockMs, startTimer, type LongTimer } from '../native/clock.ts';

export interface Countdown {
  cancel(): void;
}

interface Running {
  readonly act: () => void;
  endsAtMs: number;
  timer: LongTimer | undefined;
}

export class Countdowns {
  readonly #running = new Set<Running>();

  /** Runs `act` once after `ms`, unless everything is closed before. */
  start(ms: number, act: () => void): Countdown {
    const countdown: Running = { act, endsAtMs: clockMs() + ms, timer: undefined };
    this.#running.add(countdown);
    this.#arm(countdown);
    return {
      cancel: () => {
        countdown.timer?.cancel();
        this.#running.delete(countdown);
      },
    };
  }

  /** We were stopped for so long: every running countdown ends that much later. */
  lengthen(ms: number): void {
    for (const countdown of this.#running) {
      countdown.timer?.cancel();
      countdown.endsAtMs += ms;
      this.#arm(countdown);
    }
  }

  /** Stops them all. */
  close(): void {
    for (const countdown of this.#running) countdown.timer?.cancel();
    this.#running.clear();
  }

  #arm(countdown: Running): void {
    countdown.timer = startTimer(countdown.endsAtMs - clockMs(), () => {
      this.#running.delete(countdown);
      countdown.act();
    });
  }
}
