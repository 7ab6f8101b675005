// What a notice means for `capture watch`. The task is somebody else's, so it gets no signal. Everything that is closed
// is pushed at once, and the watch ends when only the time is left that sending the rest takes, as measured.
import type { Log } from '../../log/log.ts';
import { deadlineOf, drainReserveMs } from '../../model/file/deadline.ts';
import { type Notice, sameNotice } from '../../model/format/notice.ts';
import type { Settings } from '../../model/format/settings.ts';
import { newDeferred } from '../../model/waiting.ts';
import { clockMs, fromTimeOfDay, type LongTimer, startTimer } from '../../native/clock.ts';
import { openNotices } from '../../notices/notices.ts';
import type { Sidecar } from '../interface.ts';

/** The drain must begin. */
export interface TakenAway {
  readonly deadlineMs: number;
  readonly what: string;
}

export interface WatchNotices {
  readonly takenAway: Promise<TakenAway>;
  /** The earliest deadline of all notices, ms since the epoch. */
  readonly deadlineMs: number | undefined;
  /** From now on notices go to this sidecar. */
  listen(sidecar: Pick<Sidecar, 'noticed' | 'advised'>): void;
  drainTakes(ms: number): void;
  /** Everything is safe. */
  done(): Promise<void>;
  close(): void;
}

interface Standing {
  readonly notice: Notice;
  readonly heardAtMs: number;
  readonly deadlineMs: number;
}

export function openWatchNotices({ notices: { sources }, graceMs }: Settings, log: Log): WatchNotices {
  let standing: readonly Standing[] = [];
  let sidecar: Pick<Sidecar, 'noticed' | 'advised'> | undefined;
  let drainMs: number | undefined;
  let timer: LongTimer | undefined;
  const takenAway = newDeferred<TakenAway>();
  const first = (): Standing | undefined => standing.toSorted((a, b) => a.deadlineMs - b.deadlineMs)[0];
  const arm = (): void => {
    timer?.cancel();
    const next = first();
    if (next === undefined) return;
    const { notice, heardAtMs, deadlineMs } = next;
    const drainAtMs = deadlineMs - drainReserveMs(deadlineMs - heardAtMs, drainMs);
    const drain = (): void => takenAway.resolve({ deadlineMs, what: notice.what });
    timer = startTimer(drainAtMs - clockMs(), drain);
  };
  const changed = (): void => {
    arm();
    sidecar?.noticed(first()?.deadlineMs);
  };
  const opened = openNotices({
    choices: sources,
    env: process.env,
    log,
    onNotice: (notice) => {
      log.warn(notice.what, { event: 'notice', source: notice.source, deadlineMs: notice.atMs });
      if (notice.kind === 'advice') return sidecar?.advised();
      const heardAtMs = clockMs();
      const atMs = notice.atMs === undefined ? undefined : fromTimeOfDay(notice.atMs);
      const deadlineMs = deadlineOf(atMs, heardAtMs, graceMs);
      standing = [...standing, { notice, heardAtMs, deadlineMs }];
      changed();
    },
    onWithdrawn: (notice) => {
      log.warn(`taken back: ${notice.what}`, { event: 'notice-withdrawn', source: notice.source });
      standing = standing.filter((one) => !sameNotice(one.notice, notice));
      changed();
    },
  });
  return {
    takenAway: takenAway.promise,
    get deadlineMs() {
      return first()?.deadlineMs;
    },
    listen: (listening) => {
      sidecar = listening;
      if (standing.length > 0) changed();
    },
    drainTakes: (ms) => {
      drainMs = ms;
      arm();
    },
    done: () => opened.done(),
    close: () => {
      timer?.cancel();
      opened.close();
    },
  };
}
