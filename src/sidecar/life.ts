// One run of a task from its sidecar's view: follows the messages of the launcher, whichever way they arrive, and
// reports to it. If the launcher is gone, it continues until no process of the task is left, and says so in the record;
// if another attempt takes over meanwhile, it ends the task.
// Several lives may share a process: the end or the failure of one must not affect another.
import fs from 'node:fs';
import { type Log, openLog } from '../log/log.ts';
import { CaptureError, failureOf, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { FENCED, IN_VAIN } from '../model/file/manifest.ts';
import type { FromSidecar, TaskEnd, ToSidecar } from '../model/format/messages.ts';
import { type LifeNumbers, NO_NUMBERS } from '../model/format/shared-sidecar.ts';
import { prepareMd5 } from '../model/md5.ts';
import { clockMs } from '../native/clock.ts';
import { openPidfd, type Pidfd } from '../native/ended.ts';
import { lowerPriority } from '../native/priority.ts';
import type { Notices } from '../notices/notices.ts';
import type { Sidecar } from './interface.ts';
import { type AttemptPlace, markEnded, markSaved } from './run/attempt-file.ts';
import { OURSELVES } from './run/context.ts';
import { OrphanedTask } from './run/orphaned-task.ts';
import type { Shared } from './run/shared.ts';
import type { SharedNotices } from './shared-notices.ts';
import type { RunEnd } from './shutdown/outcome.ts';
import { LAUNCHER_LOST } from '../model/outcome/verdict.ts';
import { openSidecar } from './sidecar.ts';

/** A start that is no longer needed gets this long to end well: it may be waiting for a store that is down. */
const UNNEEDED_START_MS = 1000;
/** Without a launcher, another attempt is likely to start soon: this often we look for it. */
const CHECK_FENCE_EVERY_MS = 30_000;

/** What the lives of one process share. */
export interface SharedByLives {
  readonly shared: Shared;
  readonly notices: SharedNotices;
}

export interface LifeOptions extends SharedByLives {
  /** The pid of the launcher. */
  readonly launcher: number;
  /** The descriptor for messages to the user. The life closes it, unless it is our own stderr. */
  readonly stderr: number;
  /** Calls `then` once the message was sent, or can no longer be sent. */
  readonly tell: (message: FromSidecar, then?: () => void) => void;
  /** The life has ended and left nothing open. */
  readonly over: () => void;
  /** A bug, or an error that no stage could handle: the launcher needs another life, which scans again. */
  readonly failed: () => void;
}

type Start = Extract<ToSidecar, { readonly kind: 'start' }>;

export class Life {
  readonly #options: LifeOptions;
  readonly #giveUp = new AbortController();
  /** Aborted, with the message for the user, when another attempt has taken over the index. */
  readonly #fenced = new AbortController();
  /** Orders after `start` wait for it: the order that the task has ended may reach a restarted sidecar at once. */
  #opening: Promise<void> = Promise.resolve();
  #log: Log | undefined;
  #sidecar: Sidecar | undefined;
  #notices: Notices | undefined;
  /** The place of the attempt file. */
  #place: AttemptPlace | undefined;
  #taskPid: number | undefined;
  #task: Pidfd | undefined;
  /** It begins an attempt: no task is running. */
  #isFirst = false;
  #isFinishing = false;
  #isOver = false;
  /** While it lives, it says what the user must know of a task that did not start. */
  #hasLauncher = true;
  /** The descriptor for messages is closed. */
  #isSilent = false;
  /** The final numbers of a run that is closed. */
  #numbers: LifeNumbers = NO_NUMBERS;

  constructor(options: LifeOptions) {
    this.#options = options;
  }

  obey(message: ToSidecar): void {
    this.#obey(message).catch((error: unknown) => this.#fail(error));
  }

  /** The launcher is gone, and the results matter more: waits for the task, then drains. */
  launcherLost(): void {
    this.#launcherLost().catch((error: unknown) => this.#fail(error));
  }

  /** What is stored so far, and what waits. */
  numbers(): LifeNumbers {
    return this.#sidecar?.numbers() ?? this.#numbers;
  }

  /** Gives up what is under way, unless the run has ended. Another life may continue it. */
  async close(): Promise<void> {
    this.#isOver = true;
    this.#giveUp.abort(new CaptureError(EXIT.internal, 'the sidecar failed'));
    await this.#opening.catch(() => undefined);
    await this.#release();
    await this.#closeLog();
  }

  async #obey(message: ToSidecar): Promise<void> {
    if (message.kind === 'start') {
      this.#opening = this.#start(message);
      return this.#opening;
    }
    const late =
      message.kind === 'task-not-started'
        ? setTimeout(
            () => this.#giveUp.abort(new CaptureError(message.status, message.reason)),
            UNNEEDED_START_MS,
          )
        : undefined;
    await this.#opening;
    clearTimeout(late);
    switch (message.kind) {
      case 'task-started':
        this.#taskPid = message.pid;
        this.#task = openPidfd(message.pid);
        this.#sidecar?.taskStarted(message.pid);
        return;
      case 'task-signalled':
        if (message.lastCall) this.#sidecar?.taskSignalled(message.atMs);
        return;
      case 'noticed':
        this.#sidecar?.noticed(message.deadlineMs);
        return;
      case 'stop-cause':
        this.#sidecar?.stopCause(message.cause);
        return;
      case 'task-ended':
        return this.#finish(message.end, message);
      case 'task-not-started':
        return this.#finish(
          { code: message.status, signal: undefined, atMs: clockMs() },
          { reason: message.reason, preempted: message.preempted },
        );
    }
  }

  async #start({ settings, attempt, outputsFrom, launcherFaults, env }: Start): Promise<void> {
    const { launcher, stderr, shared, tell } = this.#options;
    this.#isFirst = attempt === undefined;
    if (attempt !== undefined) lowerPriority(); // the task is running already
    try {
      const log = openLog(settings.log, settings.identity.index, stderr);
      this.#log = log;
      this.#listen(settings.notices.sources, log);
      await prepareMd5();
      const opened = await openSidecar({
        settings,
        attempt,
        launcher,
        launcherFaults,
        outputsFrom,
        log,
        caller: { env: env ?? OURSELVES.env, stderr },
        shared,
        giveUp: this.#giveUp.signal,
        onFenced: (text) => {
          markSaved(settings, FENCED);
          this.#fenced.abort(text);
          tell({ kind: 'fenced', message: text });
        },
        onDrainTakes: (ms) => tell({ kind: 'drain-takes', ms }),
      });
      if (opened.kind === 'done-already') return await this.#sayLast(opened);
      this.#sidecar = opened.sidecar;
      this.#place = settings;
      const { attempt: number, restored, runToken, socket } = opened.sidecar;
      // Not earlier: the task's start waits for ours, and other tasks are running on this machine.
      lowerPriority();
      tell({ kind: 'ready', attempt: number, restored, runToken, socket });
    } catch (error) {
      await this.#sayLast({ kind: 'refused', ...failureOf(error) });
    }
  }

  /** Sources of notices are queried here, so that the launcher stays small. The launcher decides what notices mean. */
  #listen(choices: Start['settings']['notices']['sources'], log: Log): void {
    const { notices, tell } = this.#options;
    this.#notices = notices.listen(choices, {
      log,
      onNotice: (notice) => {
        if (notice.kind === 'stop') return tell({ kind: 'notice', notice });
        log.warn(`${notice.what}: what is closed is made safe now`, {
          event: 'notice',
          source: notice.source,
        });
        this.#sidecar?.advised();
      },
      onWithdrawn: (notice) => tell({ kind: 'notice-withdrawn', notice }),
    });
  }

  async #finish(
    taskEnd: TaskEnd,
    how: Partial<
      Pick<
        RunEnd,
        'preempted' | 'deadlineMs' | 'writersStoppedAtMs' | 'reason' | 'seen' | 'usage' | 'outOfMemory'
      >
    >,
  ): Promise<void> {
    if (this.#isFinishing || this.#sidecar === undefined) return;
    this.#isFinishing = true;
    if (this.#place?.sharedWorkdir === false) markEnded(this.#place, this.#sidecar.runToken);
    const { status, isSaved, isInVain, last } = await this.#sidecar.finish({
      end: taskEnd,
      preempted: how.preempted ?? false,
      signalledAtMs: undefined,
      deadlineMs: how.deadlineMs,
      writersStoppedAtMs: how.writersStoppedAtMs,
      reason: how.reason,
      seen: how.seen,
      usage: how.usage,
      outOfMemory: how.outOfMemory,
    });
    if (isSaved && this.#place !== undefined) markSaved(this.#place, isInVain ? IN_VAIN : '');
    await this.#notices?.done();
    await this.#release();
    // A start that failed stored nothing, so there is nothing to sum up: the launcher says why it failed.
    if (this.#taskPid !== undefined || !this.#hasLauncher) this.#log?.[last.level](last.text, last.fields);
    await this.#sayLast({ kind: 'ended', status, isSaved });
  }

  async #launcherLost(): Promise<void> {
    // The task waits for our start, and nobody is left who would start it.
    if (this.#isFirst && this.#sidecar === undefined)
      this.#giveUp.abort(new CaptureError(EXIT.internal, 'the launcher is gone: nothing was started'));
    await this.#opening;
    if (this.#isOver || this.#isFinishing) return; // The drain ends the life by itself.
    this.#hasLauncher = false;
    const sidecar = this.#sidecar;
    if (sidecar === undefined) {
      await this.#release();
      await this.#closeLog();
      return this.#end();
    }
    this.#log?.error('the launcher is gone: going on until the task has ended');
    // Also keeps this process alive until it has said how the run ended: no channel does so any more.
    const checking = setInterval(() => void sidecar.checkFence(), CHECK_FENCE_EVERY_MS);
    void sidecar.checkFence();
    try {
      await this.#orphanEnded(sidecar);
      const atMs = clockMs();
      const ended = this.#task?.ended();
      // Nobody saw how the task ended: closes that may come from a dying process stay suspect, and files that the task
      // has surely closed itself are whole.
      const seen = ended === undefined ? undefined : { ...ended, atMs };
      await this.#finish({ code: EXIT.internal, signal: undefined, atMs }, { reason: LAUNCHER_LOST, seen });
    } finally {
      clearInterval(checking);
    }
  }

  /** Resolves once the task has ended. If another attempt has the index, ends it as the launcher would have. */
  async #orphanEnded({ runToken }: Sidecar): Promise<void> {
    const task = new OrphanedTask(runToken, this.#taskPid);
    const fenced = this.#fenced.signal;
    await task.ended(fenced);
    const log = this.#log;
    if (!fenced.aborted || log === undefined) return;
    log.error(`${String(fenced.reason)}: its task is ended`, { event: 'fenced' });
    await task.end(log);
  }

  async #release(): Promise<void> {
    this.#notices?.close();
    this.#notices = undefined;
    this.#task?.close();
    this.#task = undefined;
    const sidecar = this.#sidecar;
    if (sidecar === undefined) return;
    this.#numbers = { ...sidecar.numbers(), lagMs: 0, waitingFiles: 0 };
    this.#sidecar = undefined;
    await sidecar.close();
  }

  /** Sends our messages before the launcher's last ones; then the life is over. */
  async #sayLast(message: FromSidecar): Promise<void> {
    await this.#release();
    await this.#closeLog();
    this.#options.tell(message, () => this.#end());
  }

  async #closeLog(): Promise<void> {
    const log = this.#log;
    this.#log = undefined;
    await log?.close();
    const { stderr } = this.#options;
    if (stderr !== OURSELVES.stderr && !this.#isSilent) fs.closeSync(stderr);
    this.#isSilent = true;
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.over();
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    const hint = error instanceof CaptureError ? error.hint : undefined;
    this.#log?.error(`the sidecar failed: ${reasonOf(error)}`, { hint, err: error });
    this.#options.failed();
  }
}
