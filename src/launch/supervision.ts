// The effect on the running task of each signal, of each notice, and of being fenced. Nothing else acts on the task.
// model/relay.ts decides which signals are relayed.
import type { MessageFields } from '../model/format/message-fields.ts';
import { EXIT, statusOfSignal } from '../model/exit-status.ts';
import type { Ended, SidecarReport, ToSidecar } from '../model/format/messages.ts';
import type { Settings } from '../model/format/settings.ts';
import { type StopCause, textOfSignal } from '../model/format/stop-cause.ts';
import {
  asksToEnd,
  BROADCAST_WINDOW_MS,
  canEndTask,
  type JobSignal,
  KILL_AFTER_MS,
  relayRule,
} from '../model/relay.ts';
import { type Deferred, newDeferred } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';
import { numberOfSignal } from '../native/ended.ts';
import { sendSignal } from '../native/processes.ts';
import { Countdowns, LastCall } from './last-call.ts';
import { Notices } from './notices.ts';
import { Broadcasts, JobControl } from './signals.ts';
import { senderOfTerm } from './stop-cause.ts';
import type { Task } from './task.ts';

/** The same signal again within this time counts as one signal. */
const ONE_SIGNAL_MS = 5000;
/** A sender that signals each process of a job, and has reached the task, reaches the launcher within this time. */
const REACHED_WITHIN_MS = 2000;

export interface EndRequest {
  /** For the user: `SIGTERM`, or the text of a notice. */
  readonly what: string;
  /** Undefined for a notice. */
  readonly signal: JobSignal | undefined;
}

interface SupervisionOptions {
  readonly settings: Pick<Settings, 'graceMs' | 'notices'>;
  readonly sharesGroup: boolean;
  readonly tell: (message: ToSidecar) => void;
  readonly say: (line: string, level: 'info' | 'warn' | 'error', fields?: MessageFields) => void;
}

export class Supervision {
  readonly #options: SupervisionOptions;
  readonly #countdowns = new Countdowns();
  readonly #broadcasts = new Broadcasts();
  readonly #lastCall: LastCall;
  readonly #notices: Notices;
  readonly #jobControl: JobControl;
  readonly #endRequested = newDeferred<EndRequest>();
  #task: Task | undefined;
  #isFenced = false;
  #sender: StopCause | undefined;
  #toldCause: StopCause | undefined;
  /** Set while the task has ended, and the signal or notice that ended it may still arrive. */
  #awaitedCause: Deferred<void> | undefined;
  /** Signals that came before the task ran, in order; undefined once it runs. */
  #earlySignals: (() => void)[] | undefined = [];
  readonly #lastAtMs = new Map<JobSignal, number>();
  /** Signals for the task. */
  readonly #passedOn = new Set<JobSignal>();

  constructor(options: SupervisionOptions) {
    this.#options = options;
    const { settings, sharesGroup, tell, say } = options;
    const task = (): Task | undefined => this.#task;
    this.#lastCall = new LastCall({
      countdowns: this.#countdowns,
      isForTask: () => this.#task !== undefined || this.#awaitedCause !== undefined,
      signalTask: () => this.#notices.signalAtLast(),
      killTask: () => this.#kill(),
      changed: (deadlineMs) => {
        tell({ kind: 'noticed', deadlineMs });
        this.tellCause();
        this.#awaitedCause?.resolve();
      },
    });
    this.#notices = new Notices({
      tell: settings.notices.tell,
      task,
      tellTask: (signal) => this.#tellTask(signal),
      say,
      lastCall: this.#lastCall,
      graceMs: settings.graceMs,
    });
    this.#jobControl = new JobControl({
      sharesGroup,
      broadcasts: this.#broadcasts,
      task,
      onContinued: (stoppedMs) => {
        this.#countdowns.lengthen(stoppedMs);
        this.#lastCall.lengthen(stoppedMs);
      },
    });
  }

  /** Before the task runs: the first signal or notice that asks capture to end. */
  get endRequested(): Promise<EndRequest> {
    return this.#endRequested.promise;
  }

  get lastCall(): Pick<LastCall, 'preempted' | 'reason' | 'deadlineMs' | 'taskDeadlineMs'> {
    return this.#lastCall;
  }

  /**
   * Why the task was asked to end; undefined: nobody asked. `end`: how it ended. A signal other than SIGTERM counts only
   * if it is what ended the task, which may handle it and go on.
   */
  #stopCause(end?: Ended): StopCause | undefined {
    const from = this.#lastCall.reason();
    if (from === 'SIGTERM') return this.#sender;
    if (from !== undefined) return { why: this.#notices.whyOf(from), reason: from };
    const signal = [...this.#passedOn].find((one) => end !== undefined && isEndOf(one, end));
    return signal === undefined ? undefined : { why: signal, reason: textOfSignal(signal) };
  }

  /** The sidecar learns the cause, if that is news. */
  tellCause(end?: Ended): void {
    const cause = this.#stopCause(end);
    if (cause?.reason === this.#toldCause?.reason) return;
    this.#toldCause = cause;
    this.#options.tell({ kind: 'stop-cause', cause });
  }

  get hasTaskEnded(): boolean {
    return this.#earlySignals === undefined && this.#task === undefined;
  }

  get isFenced(): boolean {
    return this.#isFenced;
  }

  /** From now on signals are for this task. */
  taskRuns(task: Task): void {
    const early = this.#earlySignals ?? [];
    this.#earlySignals = undefined;
    this.#task = task;
    for (const act of early) act();
    if (this.#isFenced) task.signal('SIGTERM');
  }

  /**
   * The main process has ended: nothing is relayed any more. A signal to each process of a job may reach the task
   * first and end it. Resolves when the launcher has received it too, or when it would have arrived.
   */
  async taskEnded(end: Ended): Promise<void> {
    this.#task = undefined;
    if (end.code === EXIT.ok || this.#isFenced || this.#lastCall.preempted()) return;
    const waitMs = this.#isEndedBySignalForUs(end) ? REACHED_WITHIN_MS : BROADCAST_WINDOW_MS;
    this.#awaitedCause = newDeferred();
    const timer = setTimeout(this.#awaitedCause.resolve, waitMs);
    await this.#awaitedCause.promise;
    clearTimeout(timer);
    this.#awaitedCause = undefined;
  }

  received(signal: JobSignal): void {
    if (signal === 'SIGTSTP') return void this.#jobControl.stop();
    if (signal === 'SIGCONT') this.#jobControl.continued();
    const isNotice = this.#options.settings.notices.signals.includes(signal);
    if (this.#earlySignals !== undefined) {
      if (!asksToEnd(signal) && !isNotice) return;
      // The task may be about to start: then the signal is for the task.
      this.#earlySignals.push(() => this.received(signal));
      return this.#endRequested.resolve({ what: signal, signal: isNotice ? undefined : signal });
    }
    if (isNotice) return this.#noticeSignal(signal);
    if (signal === 'SIGTERM') this.#lastCallSignal(signal);
    if (canEndTask(signal)) this.#passedOn.add(signal);
    // A signal after the task's end says nothing about its closes.
    if (canEndTask(signal) && this.#task !== undefined) {
      const lastCall = signal === 'SIGTERM';
      this.#options.tell({ kind: 'task-signalled', signal, atMs: clockMs(), lastCall });
    }
    void this.#relay(signal);
  }

  heard(news: SidecarReport): void {
    switch (news.kind) {
      case 'signal-seen':
        return this.#broadcasts.seen(news.signal);
      case 'drain-takes':
        return this.#lastCall.drainTakes(news.ms);
      case 'fenced':
        this.#options.say(news.message, 'error', { event: 'fenced' });
        return this.#fence();
      case 'notice':
        if (this.#earlySignals === undefined) return this.#notices.received(news.notice);
        this.#earlySignals.push(() => this.heard(news));
        return this.#endRequested.resolve({ what: news.notice.what, signal: undefined });
      case 'notice-withdrawn':
        if (this.#earlySignals === undefined) return this.#notices.withdrawn(news.notice);
        this.#earlySignals.push(() => this.heard(news));
    }
  }

  close(): void {
    this.#countdowns.close();
    this.#broadcasts.close();
  }

  async #relay(signal: JobSignal): Promise<void> {
    const rule = relayRule(signal, this.#options.sharesGroup);
    if (rule === 'never') return;
    if (rule === 'unless-broadcast' && (await this.#broadcasts.covers(signal))) return;
    this.#task?.signal(signal);
  }

  /** SIGTERM: the scheduler's last call. */
  #lastCallSignal(signal: JobSignal): void {
    if (!this.#isFirst(signal)) return;
    const deadlineMs = clockMs() + this.#options.settings.graceMs;
    this.#sender ??= senderOfTerm(process.env);
    this.#lastCall.begin({ from: signal, deadlineMs, isFixed: false });
    this.#lastCall.taskSignalled();
  }

  /** True if SIGTERM or a notice signal ended the task. */
  #isEndedBySignalForUs(end: Ended): boolean {
    return ['SIGTERM', ...this.#options.settings.notices.signals].some((one) => isEndOf(one, end));
  }

  /** A signal of `--notice-on`. */
  #noticeSignal(signal: JobSignal): void {
    if (!this.#isFirst(signal)) return;
    const what = `${signal} says that we are stopped soon`;
    this.#notices.received({ source: signal, kind: 'stop', atMs: undefined, what });
  }

  /** A repeated signal means that the sender is tired of waiting, unless it comes so soon that it counts as one. */
  #isFirst(signal: JobSignal): boolean {
    const nowMs = clockMs();
    const beforeMs = this.#lastAtMs.get(signal);
    if (beforeMs !== undefined && nowMs - beforeMs < ONE_SIGNAL_MS) return false;
    this.#lastAtMs.set(signal, nowMs);
    if (beforeMs !== undefined) this.#lastCall.shorten(KILL_AFTER_MS);
    return beforeMs === undefined;
  }

  #tellTask(signal: NodeJS.Signals): void {
    if (this.#task === undefined) return;
    this.#options.tell({ kind: 'task-signalled', signal, atMs: clockMs(), lastCall: true });
    this.#lastCall.taskSignalled();
    this.#task.signal(signal);
  }

  #fence(): void {
    this.#isFenced = true;
    this.#task?.signal('SIGTERM');
    this.#countdowns.start(KILL_AFTER_MS, () => this.#kill());
  }

  #kill(): void {
    for (const pid of this.#task?.members() ?? []) sendSignal(pid, 'SIGKILL');
  }
}

/** True if the signal ended the task, or if its status is a shell's 128+N for it. */
function isEndOf(signal: string, end: Ended): boolean {
  return end.signal === signal || end.code === statusOfSignal(numberOfSignal(signal));
}
