// Timers that know about job control: a run that was stopped gets the stopped time back, so that nothing is
// killed for having slept. Never holds the process open.
import { clockMs, startTimer, type LongTimer } from '../native/clock.ts';

export interface Countdowns {
  /** Runs `act` once after `ms`, unless everything is closed before. */
  start(ms: number, act: () => void): Countdown;
  /** We were stopped for so long: every running countdown ends that much later. */
  lengthen(ms: number): void;
  /** Stops them all. */
  close(): void;
}

export interface Countdown {
  cancel(): void;
}

interface Running {
  readonly act: () => void;
  endsAtMs: number;
  timer: LongTimer | undefined;
}

export function createCountdowns(): Countdowns {
  const running = new Set<Running>();
  const arm = (countdown: Running): void => {
    countdown.timer = startTimer(countdown.endsAtMs - clockMs(), () => {
      running.delete(countdown);
      countdown.act();
    });
  };
  return {
    start: (ms, act) => {
      const countdown: Running = { act, endsAtMs: clockMs() + ms, timer: undefined };
      running.add(countdown);
      arm(countdown);
      return {
        cancel: () => {
          countdown.timer?.cancel();
          running.delete(countdown);
        },
      };
    },
    lengthen: (ms) => {
      for (const countdown of running) {
        countdown.timer?.cancel();
        countdown.endsAtMs += ms;
        arm(countdown);
      }
    },
    close: () => {
      for (const countdown of running) countdown.timer?.cancel();
      running.clear();
    },
  };
}
