// What signals do to a worker and its tasks. The first that ends lets every task checkpoint, a second Ctrl-C does not wait
// for that, a third one waits for nothing; Ctrl-Z stops all of it.
import { listenForSignals } from '../launch/signals.ts';
import { statusOfSignal, type ExitStatus, EXIT } from '../model/exit-status.ts';
import { asksToEnd, type JobSignal } from '../model/relay.ts';
import { clockMs } from '../native/clock.ts';
import { numberOfSignal } from '../native/ended.ts';
import { sendSignal } from '../native/processes.ts';

/** How a task is stopped: `checkpoint` waits until it has written one, `faster` does not, `kill` waits for nothing. */
export const FORCES = ['checkpoint', 'faster', 'kill'] as const;
export type Force = (typeof FORCES)[number];

/** A wrapper such as npm passes the terminal's signal on a second time. */
const ONE_SIGNAL_MS = 300;

export interface StopStep {
  readonly force: Force;
  readonly signal: string;
  /** We end with it if anything is left: stopped by hand is not preempted. */
  readonly status: ExitStatus;
}

export interface SignalListeners {
  readonly stopped: (step: StopStep) => void;
  /** A signal of --notice-on. */
  readonly noticed: (signal: string) => void;
  /** For every task as it is. */
  readonly passedOn: (signal: 'SIGTSTP' | 'SIGCONT') => void;
}

interface SignalOptions {
  /** By our caller (`nohup`): they stay without effect. */
  readonly ignored: ReadonlySet<string>;
  readonly notices: readonly string[];
}

/** Signals from the start of the command to its end. */
export interface StopEscalation {
  /** Aborts at the first one that ends. */
  readonly stopping: AbortSignal;
  last(): StopStep | undefined;
  /** From now on these hear the signals; the last step, if there was one, at once. */
  listen(listeners: SignalListeners): void;
  close(): void;
}

export function openStopEscalation({ ignored, notices }: SignalOptions): StopEscalation {
  const stopping = new AbortController();
  let listeners: SignalListeners | undefined;
  let last: StopStep | undefined;
  let times = 0;
  let lastMs = -Infinity;
  const stop = (signal: JobSignal): void => {
    const nowMs = clockMs();
    const isByHand = signal === 'SIGINT' || signal === 'SIGQUIT';
    // A scheduler may say SIGTERM as often as it likes: the tasks have until it kills.
    if (times > 0 && (!isByHand || nowMs - lastMs < ONE_SIGNAL_MS)) return;
    lastMs = nowMs;
    const force = FORCES[times] ?? 'kill';
    times += 1;
    const status = isByHand ? statusOfSignal(numberOfSignal(signal)) : EXIT.preempted;
    last = { force, signal, status };
    stopping.abort(new Error(`stopped by ${signal}`));
    listeners?.stopped(last);
  };
  const { close } = listenForSignals(ignored, (signal) => {
    if (notices.includes(signal)) return listeners?.noticed(signal);
    if (signal === 'SIGCONT') return listeners?.passedOn(signal);
    if (asksToEnd(signal)) return stop(signal);
    if (signal !== 'SIGTSTP') return;
    listeners?.passedOn(signal);
    sendSignal(process.pid, 'SIGSTOP');
  });
  return {
    stopping: stopping.signal,
    last: () => last,
    listen: (to) => {
      listeners = to;
      if (last !== undefined) to.stopped(last);
    },
    close,
  };
}
