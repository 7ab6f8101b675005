// When companions are captured without a checkpoint: `--companion-interval` after the last capture, and when the
// task is about to be stopped, so that little is left to send at the end. One capture at a time; it never keeps a
// run from ending.

export interface CompanionClock {
  /** They were captured just now. */
  captured(): void;
  /** Captures them at once, unless it is being done. */
  now(): void;
  /** No capture begins any more. */
  close(): void;
}

/** `capture` must not reject. */
export function openCompanionClock(capture: () => Promise<void>, everyMs: number): CompanionClock {
  let timer: NodeJS.Timeout | undefined;
  let isUnderWay = false;
  let isClosed = false;
  const captured = (): void => {
    clearTimeout(timer);
    if (!isClosed) timer = setTimeout(now, everyMs);
  };
  const now = (): void => {
    if (isUnderWay || isClosed) return;
    isUnderWay = true;
    void capture().finally(() => {
      isUnderWay = false;
      captured();
    });
  };
  captured();
  return {
    captured,
    now,
    close: () => {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
