// Timers that know about job control: a run that was stopped gets the stopped time back, so that nothing is
// killed for having slept. Never holds the process open.

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
  timer: NodeJS.Timeout;
}

export function createCountdowns(): Countdowns {
  const running = new Set<Running>();
  const arm = (countdown: Running): void => {
    countdown.timer = setTimeout(
      () => {
        running.delete(countdown);
        countdown.act();
      },
      Math.max(0, countdown.endsAtMs - Date.now()),
    ).unref();
  };
  return {
    start: (ms, act) => {
      const countdown = { act, endsAtMs: Date.now() + ms, timer: setTimeout(() => undefined, 0) };
      clearTimeout(countdown.timer);
      running.add(countdown);
      arm(countdown);
      return {
        cancel: () => {
          clearTimeout(countdown.timer);
          running.delete(countdown);
        },
      };
    },
    lengthen: (ms) => {
      for (const countdown of running) {
        clearTimeout(countdown.timer);
        countdown.endsAtMs += ms;
        arm(countdown);
      }
    },
    close: () => {
      for (const countdown of running) clearTimeout(countdown.timer);
      running.clear();
    },
  };
}
