// What each signal, each notice, and the sidecar's word that we are fenced do to the running task. Between them
// and the task stands nothing else; whether a signal is relayed is decided in model/relay.ts.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createDeferred } from '../model/deferred.ts';
import { deadlineOf } from '../model/file/deadline.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import type { News, ToSidecar } from '../model/format/messages.ts';
import type { Settings } from '../model/format/settings.ts';
import { asksToEnd, canEndTask, relayRule } from '../model/relay.ts';
import type { JobSignal } from '../model/relay.ts';
import { clockMs, fromTimeOfDay } from '../native/clock.ts';
import { sendSignal } from '../native/processes.ts';
import { createCountdowns } from './countdown.ts';
import { stopOurselves, stopTask } from './job-control.ts';
import { createLastCall } from './last-call.ts';
import type { LastCall } from './last-call.ts';
import { KILL_AFTER_MS } from './leftovers.ts';
import { createNotices } from './notices.ts';
import { createBroadcasts } from './signals.ts';
import type { Task } from './task.ts';

/** The same signal again within this time is the same. */
const ONE_SIGNAL_MS = 5000;

export interface EndRequest {
  /** For the user: `SIGTERM`, or what a notice says. */
  readonly what: string;
  /** Undefined for a notice. */
  readonly signal: JobSignal | undefined;
}

export interface Supervision {
  /** Before the task runs: what first asked us to end, a signal or a notice. */
  readonly endRequested: Promise<EndRequest>;
  readonly lastCall: Pick<LastCall, 'preempted' | 'reason' | 'deadlineMs' | 'taskDeadlineMs'>;
  /** From now on signals are for this task. */
  taskRuns(task: Task): void;
  /** Its main process has ended: nothing is relayed any more. */
  taskEnded(): void;
  received(signal: JobSignal): void;
  heard(news: News): void;
  fenced(): boolean;
  close(): void;
}

export interface SuperviseOptions {
  readonly settings: Pick<Settings, 'graceMs' | 'notices'>;
  readonly sharesGroup: boolean;
  readonly tell: (message: ToSidecar) => void;
  readonly say: (line: string, level: 'info' | 'warn' | 'error', fields?: MessageFields) => void;
}

export function supervise({ settings, sharesGroup, tell, say }: SuperviseOptions): Supervision {
  const endRequested = createDeferred<EndRequest>();
  const countdowns = createCountdowns();
  const broadcasts = createBroadcasts();
  let task: Task | undefined;
  let started = false;
  let fenced = false;
  /** What came before the task ran, in the order in which it came. */
  const early: (() => void)[] = [];
  let stopping: AbortController | undefined;
  const lastAtMs = new Map<JobSignal, number>();

  const kill = (): void => {
    if (task === undefined) return;
    for (const pid of task.members()) sendSignal(pid, 'SIGKILL');
  };
  const tellTask = (signal: NodeJS.Signals): void => {
    if (task === undefined) return;
    tell({ kind: 'task-signalled', signal, atMs: clockMs(), lastCall: true });
    lastCall.told();
    task.signal(signal);
  };
  const lastCall = createLastCall({
    countdowns,
    tell: () => notices.tellAtLast(),
    kill,
    changed: (deadlineMs) => tell({ kind: 'noticed', deadlineMs }),
  });
  const notices = createNotices({
    tell: settings.notices.tell,
    task: () => task,
    tellTask,
    say,
    begin: (notice) => {
      const atMs = notice.atMs === undefined ? undefined : fromTimeOfDay(notice.atMs);
      const deadlineMs = deadlineOf(atMs, clockMs(), settings.graceMs);
      const isFixed = atMs !== undefined && atMs > clockMs();
      lastCall.begin({ from: notice.what, deadlineMs, taskRuns: task !== undefined, isFixed });
    },
    withdraw: (notice) => lastCall.withdraw(notice.what),
    taskDeadlineMs: () => lastCall.taskDeadlineMs(),
  });

  const relay = async (signal: JobSignal): Promise<void> => {
    const rule = relayRule(signal, sharesGroup);
    if (rule === 'never') return;
    if (rule === 'unless-broadcast' && (await broadcasts.covers(signal))) return;
    task?.signal(signal);
  };
  const stop = async (): Promise<void> => {
    if (stopping !== undefined) return;
    stopping = new AbortController();
    const continued = stopping.signal;
    const rule = relayRule('SIGTSTP', sharesGroup);
    const hasIt = rule === 'unless-broadcast' && (await broadcasts.covers('SIGTSTP'));
    if (task !== undefined && !continued.aborted) await stopTask(task, hasIt, continued);
    // A stop that was taken back before it took place must not leave us asleep for ever. SIGCONT may have come
    // and not been told yet: signals are told when the event loop polls, and timers that are late go before that.
    await nextTurn();
    stopping = undefined;
    if (continued.aborted) return;
    const stoppedMs = stopOurselves(sharesGroup);
    countdowns.lengthen(stoppedMs);
    lastCall.lengthen(stoppedMs);
  };
  /** True when it is one with the last of its kind. */
  const isRepeated = (signal: JobSignal): boolean => {
    const nowMs = clockMs();
    const beforeMs = lastAtMs.get(signal) ?? -Infinity;
    if (nowMs - beforeMs < ONE_SIGNAL_MS) return true;
    lastAtMs.set(signal, nowMs);
    return false;
  };
  const lastCallSignal = (signal: JobSignal): void => {
    const isSecond = lastAtMs.has(signal);
    if (isRepeated(signal)) return;
    if (isSecond) return lastCall.shorten(KILL_AFTER_MS);
    const deadlineMs = clockMs() + settings.graceMs;
    lastCall.begin({ from: signal, deadlineMs, taskRuns: task !== undefined, isFixed: false });
    lastCall.told();
  };
  const noticeSignal = (signal: JobSignal): void => {
    const isSecond = lastAtMs.has(signal);
    if (isRepeated(signal)) return;
    if (isSecond) return lastCall.shorten(KILL_AFTER_MS);
    notices.received({
      source: signal,
      kind: 'stop',
      atMs: undefined,
      what: `${signal} says that we are stopped soon`,
    });
  };
  const received = (signal: JobSignal): void => {
    if (signal === 'SIGTSTP') return void stop();
    if (signal === 'SIGCONT') stopping?.abort();
    if (!started) {
      const isNotice = settings.notices.signals.includes(signal);
      if (!asksToEnd(signal) && !isNotice) return;
      // The task may be about to start: then the signal is for the task.
      early.push(() => received(signal));
      return endRequested.resolve({ what: signal, signal: isNotice ? undefined : signal });
    }
    if (settings.notices.signals.includes(signal)) return noticeSignal(signal);
    if (signal === 'SIGTERM') lastCallSignal(signal);
    if (canEndTask(signal)) {
      tell({ kind: 'task-signalled', signal, atMs: clockMs(), lastCall: signal === 'SIGTERM' });
    }
    void relay(signal);
  };
  const fence = (): void => {
    fenced = true;
    task?.signal('SIGTERM');
    countdowns.start(KILL_AFTER_MS, kill);
  };
  const heard = (news: News): void => {
    switch (news.kind) {
      case 'signal-seen':
        return broadcasts.seen(news.signal);
      case 'drain-takes':
        return lastCall.drainTakes(news.ms);
      case 'fenced':
        say(news.message, 'error', { event: 'fenced' });
        return fence();
      case 'notice':
      case 'notice-withdrawn':
        if (!started) {
          early.push(() => heard(news));
          return news.kind === 'notice'
            ? endRequested.resolve({ what: news.notice.what, signal: undefined })
            : undefined;
        }
        return news.kind === 'notice' ? notices.received(news.notice) : notices.withdrawn(news.notice);
    }
  };
  return {
    endRequested: endRequested.promise,
    lastCall,
    taskRuns: (running) => {
      started = true;
      task = running;
      for (const act of early) act();
      if (fenced) running.signal('SIGTERM');
    },
    taskEnded: () => {
      task = undefined;
    },
    received,
    heard,
    fenced: () => fenced,
    close: () => {
      countdowns.close();
      broadcasts.close();
    },
  };
}
