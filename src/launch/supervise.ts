// What each signal, and the sidecar's word that we are fenced, does to the running task. Between the signals
// and the task stands nothing else; whether a signal is relayed is decided in core/relay.ts.
import type { ToSidecar } from '../core/messages.ts';
import { asksToEnd, canEndTask, relayRule } from '../core/relay.ts';
import type { JobSignal } from '../core/relay.ts';
import { sendSignal } from '../native/processes.ts';
import { createCountdowns } from './countdown.ts';
import { createDeferred } from './deferred.ts';
import { stopOurselves, stopTask } from './job-control.ts';
import { createLastCall } from './last-call.ts';
import type { LastCall } from './last-call.ts';
import { KILL_AFTER_MS } from './leftovers.ts';
import { createBroadcasts } from './signals.ts';
import type { Task } from './task.ts';

export interface Supervision {
  /** Before the task runs: the first signal that asks us to end. */
  readonly endRequested: Promise<JobSignal>;
  readonly lastCall: Pick<LastCall, 'preempted' | 'deadlineMs' | 'taskDeadlineMs'>;
  /** From now on signals are for this task. */
  taskRuns(task: Task): void;
  /** Its main process has ended: nothing is relayed any more. */
  taskEnded(): void;
  received(signal: JobSignal): void;
  /** The sidecar received this signal. */
  seen(signal: string): void;
  /** Another attempt has taken over: the task must end. */
  fence(): void;
  fenced(): boolean;
  close(): void;
}

export function supervise(options: {
  readonly graceMs: number;
  readonly sharesGroup: boolean;
  readonly tell: (message: ToSidecar) => void;
}): Supervision {
  const endRequested = createDeferred<JobSignal>();
  const countdowns = createCountdowns();
  const broadcasts = createBroadcasts();
  let task: Task | undefined;
  let started = false;
  let fenced = false;
  let early: JobSignal | undefined;
  let stopping: AbortController | undefined;

  const kill = (): void => {
    if (task === undefined) return;
    for (const pid of task.members()) sendSignal(pid, 'SIGKILL');
  };
  const lastCall = createLastCall(options.graceMs, countdowns, kill);

  const relay = async (signal: JobSignal): Promise<void> => {
    const rule = relayRule(signal, options.sharesGroup);
    if (rule === 'never') return;
    if (rule === 'unless-broadcast' && (await broadcasts.covers(signal))) return;
    task?.signal(signal);
  };
  const stop = async (): Promise<void> => {
    if (stopping !== undefined) return;
    stopping = new AbortController();
    const continued = stopping.signal;
    const rule = relayRule('SIGTSTP', options.sharesGroup);
    const hasIt = rule === 'unless-broadcast' && (await broadcasts.covers('SIGTSTP'));
    if (task !== undefined && !continued.aborted) await stopTask(task, hasIt, continued);
    stopping = undefined;
    // A stop that was taken back before it took place must not leave us asleep for ever.
    if (continued.aborted) return;
    const stoppedMs = stopOurselves(options.sharesGroup);
    countdowns.lengthen(stoppedMs);
    lastCall.lengthen(stoppedMs);
  };
  const received = (signal: JobSignal): void => {
    if (signal === 'SIGTSTP') return void stop();
    if (signal === 'SIGCONT') stopping?.abort();
    if (!started) {
      if (!asksToEnd(signal)) return;
      // The task may be about to start: then the signal is for the task.
      early ??= signal;
      return endRequested.resolve(signal);
    }
    if (canEndTask(signal)) {
      options.tell({ kind: 'task-signalled', signal, atMs: Date.now(), lastCall: signal === 'SIGTERM' });
    }
    if (signal === 'SIGTERM') lastCall.begin(task !== undefined);
    void relay(signal);
  };
  return {
    endRequested: endRequested.promise,
    lastCall,
    taskRuns: (running) => {
      started = true;
      task = running;
      if (early !== undefined) received(early);
      if (fenced) running.signal('SIGTERM');
    },
    taskEnded: () => {
      task = undefined;
    },
    received,
    seen: (signal) => broadcasts.seen(signal),
    fence: () => {
      fenced = true;
      task?.signal('SIGTERM');
      countdowns.start(KILL_AFTER_MS, kill);
    },
    fenced: () => fenced,
    close: () => {
      countdowns.close();
      broadcasts.close();
    },
  };
}
