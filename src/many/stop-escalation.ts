// What signals do to a worker and its tasks. The first stop signal lets every task checkpoint. A second Ctrl-C does not
// wait for the checkpoints, and a third one kills. Ctrl-Z stops all processes.
import { listenForSignals } from '../launch/signals.ts';
import { statusOfSignal, type ExitStatus, EXIT } from '../model/exit-status.ts';
import { asksToEnd, type JobSignal } from '../model/relay.ts';
import { clockMs } from '../native/clock.ts';
import { numberOfSignal } from '../native/ended.ts';
import { sendSignal } from '../native/processes.ts';

/** How a task is stopped: `checkpoint` waits for a checkpoint, `faster` does not wait, `kill` ends it at once. */
export const FORCES = ['checkpoint', 'faster', 'kill'] as const;
export type Force = (typeof FORCES)[number];

/** A wrapper such as npm passes on the terminal's signal, so it arrives twice. */
const ONE_SIGNAL_MS = 300;

export interface StopStep {
  readonly force: Force;
  readonly signal: string;
  /** Our exit status if any task is left. A stop by hand is not a preemption. */
  readonly status: ExitStatus;
}

export interface SignalListeners {
  readonly stopped: (step: StopStep) => void;
  /** A signal of --notice-on. */
  readonly noticed: (signal: string) => void;
  /** Passed on unchanged to every task. */
  readonly passedOn: (signal: 'SIGTSTP' | 'SIGCONT') => void;
}

interface SignalOptions {
  /** Signals that our caller ignores (`nohup`). They stay ignored. */
  readonly ignored: ReadonlySet<string>;
  readonly notices: readonly string[];
}

/** Handles signals from the start of the command to its end. */
export interface StopEscalation {
  /** Aborts on the first stop signal. */
  readonly stopping: AbortSignal;
  last(): StopStep | undefined;
  /** From now on the listeners get the signals. If a stop signal came before, they get the latest step at once. */
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
    // A scheduler may repeat SIGTERM: the tasks have time until its SIGKILL.
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
