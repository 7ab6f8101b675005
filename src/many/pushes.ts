// What signals do to a runner and its tasks. The first that ends lets every task checkpoint, a second Ctrl-C does not wait
// for that, a third one waits for nothing; Ctrl-Z stops all of it.
import { listenForSignals } from '../launch/signals.ts';
import { statusOfSignal, type ExitStatus, EXIT } from '../model/exit-status.ts';
import { asksToEnd, type JobSignal } from '../model/relay.ts';
import { clockMs } from '../native/clock.ts';
import { numberOfSignal } from '../native/ended.ts';
import { sendSignal } from '../native/processes.ts';
import type { Push } from './slot.ts';

const HARDER: readonly Push[] = ['again', 'faster', 'kill'];
/** A wrapper such as npm passes the terminal's signal on a second time. */
const ONE_SIGNAL_MS = 300;

export interface Pushed {
  readonly how: Push;
  readonly signal: string;
  /** What the runner ends with if anything is left: by hand it is no preemption. */
  readonly status: ExitStatus;
}

export interface SignalListeners {
  readonly pushed: (push: Pushed) => void;
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
export interface Pushes {
  /** Aborts at the first one that ends. */
  readonly stopping: AbortSignal;
  last(): Pushed | undefined;
  /** From now on they are for these; the last push, if there was one, is told at once. */
  listen(listeners: SignalListeners): void;
  close(): void;
}

export function openPushes({ ignored, notices }: SignalOptions): Pushes {
  const stopping = new AbortController();
  let listeners: SignalListeners | undefined;
  let last: Pushed | undefined;
  let times = 0;
  let lastMs = -Infinity;
  const push = (signal: JobSignal): void => {
    const nowMs = clockMs();
    const isByHand = signal === 'SIGINT' || signal === 'SIGQUIT';
    // A scheduler may say SIGTERM as often as it likes: the tasks have until it kills.
    if (times > 0 && (!isByHand || nowMs - lastMs < ONE_SIGNAL_MS)) return;
    lastMs = nowMs;
    const how = HARDER[Math.min(times, HARDER.length - 1)] ?? 'kill';
    times += 1;
    const status = isByHand ? statusOfSignal(numberOfSignal(signal)) : EXIT.preempted;
    last = { how, signal, status };
    stopping.abort(new Error(`stopped by ${signal}`));
    listeners?.pushed(last);
  };
  const { close } = listenForSignals(ignored, (signal) => {
    if (notices.includes(signal)) return listeners?.noticed(signal);
    if (signal === 'SIGCONT') return listeners?.passedOn(signal);
    if (asksToEnd(signal)) return push(signal);
    if (signal !== 'SIGTSTP') return;
    listeners?.passedOn(signal);
    sendSignal(process.pid, 'SIGSTOP');
  });
  return {
    stopping: stopping.signal,
    last: () => last,
    listen: (to) => {
      listeners = to;
      if (last !== undefined) to.pushed(last);
    },
    close,
  };
}
