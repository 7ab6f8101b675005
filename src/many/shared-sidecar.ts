// The sidecar that all tasks of this machine share. It is started here, and again whenever it dies. Launchers find it
// through a variable and connect by themselves. Where it cannot run, each task has a sidecar of its own, as without a
// runner.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { noteOwnChild } from '../launch/own-children.ts';
import { needEntry, type StartedSidecar, startSharedSidecar } from '../launch/sidecar-start.ts';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import { LONGEST_SOCKET_PATH_BYTES } from '../model/format/control.ts';
import {
  CLOCK_VARIABLE,
  type FromSharedSidecar,
  type LifeNumbers,
  NO_NUMBERS,
  numbersOf,
  SIDECAR_VARIABLE,
} from '../model/format/shared-sidecar.ts';
import { formatMs } from '../model/units.ts';
import { type BackOff, Changes, pauseAfter } from '../model/waiting.ts';
import { clockMs, clockOffsetMs } from '../native/clock.ts';
import { openFilesLimit, sendSignal } from '../native/processes.ts';
import { removeTree } from '../native/remove-tree.ts';

const RESTART: BackOff = { firstMs: 50, mostMs: 10_000 };
/** Deaths older than this do not lengthen the next pause. */
const DEATHS_WITHIN_MS = 10 * 60_000;
/** A start that takes longer does not hold up the tasks: their launchers retry for a while. */
const LISTENS_WITHIN_MS = 5000;
/** The sidecar is polled at this interval. It hangs if it has not answered by the second poll after a question. */
const ASK_EVERY_MS = 30_000;
const MOST_UNANSWERED = 2;
/** Without a launcher it only has to exit. */
const EXIT_WITHIN_MS = 10_000;
/** The socket is created under a longer temporary name (sidecar/serve). */
const NAME = 'sidecar';
const LONGEST_NAME = `${NAME}.new`;

export interface SharedSidecarOptions {
  /** The module to run. */
  readonly entry: string;
  /** A private directory. The socket is created there if its path is short enough. */
  readonly dir: string;
  readonly env: NodeJS.ProcessEnv;
  readonly tasksAtOnce: number;
  /** Lock of the scratch directory: nobody removes the directory while the sidecar reads it. */
  readonly lockFd: number;
  /** Niceness of the tasks: the sidecar never has a higher priority than they. */
  readonly nice: number | undefined;
  readonly log: Log;
  /** Running children that we started ourselves; this module keeps the set up to date. */
  readonly ownChildren: Set<number>;
  /** Default: 30 s. */
  readonly askEveryMs?: number;
}

/** The shared sidecar, from the view of one task. */
export interface SidecarShare {
  /** For the launcher: the variable with the sidecar's address; empty if no sidecar runs. */
  env(): NodeJS.ProcessEnv;
  /** The launcher has ended. */
  leave(): void;
}

/** Throws status 70 if the sidecar's module is missing: no task could start. */
export async function openSharedSidecar(options: SharedSidecarOptions): Promise<SharedSidecar> {
  needEntry(options.entry);
  const shared = new SharedSidecar(options, socketDir(options.dir));
  shared.start();
  await shared.listensWithin(LISTENS_WITHIN_MS);
  return shared;
}

/** A private directory (unix(7): the path of a socket has at most 107 bytes). */
function socketDir(dir: string): string {
  if (Buffer.byteLength(path.join(dir, LONGEST_NAME)) <= LONGEST_SOCKET_PATH_BYTES) return dir;
  const tmp = path.join(os.tmpdir(), 'capture-XXXXXX', LONGEST_NAME).length;
  const base = tmp <= LONGEST_SOCKET_PATH_BYTES ? os.tmpdir() : '/tmp';
  return fs.mkdtempSync(path.join(base, 'capture-'));
}

export class SharedSidecar {
  readonly #options: SharedSidecarOptions;
  readonly #socketDir: string;
  readonly #socket: string;
  readonly #changes = new Changes();
  readonly #launchers = new Set<number>();
  readonly #deathsAtMs: number[] = [];
  #running: StartedSidecar | undefined;
  #restart: NodeJS.Timeout | undefined;
  #state: 'starting' | 'listening' | 'none' = 'starting';
  #isOver = false;
  /** Polls since the last answer. */
  #unanswered = 0;
  /** Number of tasks that share it. */
  #sharing = 0;
  readonly #mostSharing = mostSharing(openFilesLimit());
  /** Totals of the sidecars that died, and of the one that runs. */
  #before: LifeNumbers = NO_NUMBERS;
  #now: LifeNumbers = NO_NUMBERS;

  constructor(options: SharedSidecarOptions, dir: string) {
    this.#options = options;
    this.#socketDir = dir;
    this.#socket = path.join(dir, NAME);
  }

  start(): void {
    const { entry, env: given, nice, lockFd, tasksAtOnce, ownChildren } = this.#options;
    const env = { ...given, [CLOCK_VARIABLE]: String(clockOffsetMs()) };
    let started: StartedSidecar;
    try {
      started = startSharedSidecar(entry, { socket: this.#socket, lockFd, env, tasksAtOnce });
    } catch (error) {
      return this.#died(reasonOf(error)); // spawn() throws ENOMEM at once
    }
    this.#running = started;
    const { child } = started;
    noteOwnChild(child, ownChildren);
    const { pid } = child;
    if (pid !== undefined) {
      if (nice !== undefined) lowerTo(nice, pid);
    }
    child.on('message', (message) => this.#hear(message as FromSharedSidecar));
    const asking = this.#askAgain(started);
    void started.gone.then((how) => {
      clearInterval(asking);
      this.#running = undefined;
      this.#died(how);
    });
  }

  /**
   * Polls the sidecar. A stopped or hanging sidecar would block all tasks, so it is killed, and the next one takes over
   * their attempts.
   */
  #askAgain({ child }: StartedSidecar): NodeJS.Timeout {
    const { askEveryMs = ASK_EVERY_MS, log } = this.#options;
    this.#unanswered = 0;
    const ask = (): void => {
      if (this.#unanswered < MOST_UNANSWERED) {
        this.#unanswered += 1;
        if (child.connected) child.send({ kind: 'ask' }, () => undefined);
        return;
      }
      log.warn(`the sidecar of all tasks has not answered for ${formatMs(MOST_UNANSWERED * askEveryMs)}`);
      child.kill('SIGKILL');
    };
    return setInterval(ask, askEveryMs).unref();
  }

  async listensWithin(ms: number): Promise<void> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), ms);
    while (!late.signal.aborted && this.#state === 'starting') await this.#changes.next(late.signal);
    clearTimeout(timer);
  }

  /** For one more task. Undefined if its limit of open files allows no more tasks. */
  enter(): SidecarShare | undefined {
    if (this.#sharing >= this.#mostSharing) return undefined;
    this.#sharing += 1;
    return { env: () => this.#env(), leave: () => (this.#sharing -= 1) };
  }

  #env(): NodeJS.ProcessEnv {
    if (this.#state === 'none') return {};
    return { [SIDECAR_VARIABLE]: this.#socket, [CLOCK_VARIABLE]: String(clockOffsetMs()) };
  }

  /** Totals of all tasks since the start. */
  numbers(): LifeNumbers {
    return numbersOf([this.#before, this.#now]);
  }

  /** Resolves when the sidecar has finished its work for the launcher with this pid, which has ended. */
  async lifeOver(launcher: number): Promise<void> {
    const never = new AbortController().signal;
    while (this.#launchers.has(launcher)) await this.#changes.next(never);
  }

  /** Kills it for good. It stores nothing more. */
  kill(): void {
    this.#isOver = true;
    clearTimeout(this.#restart);
    const pid = this.#running?.child.pid;
    if (pid !== undefined) sendSignal(pid, 'SIGKILL');
  }

  /** Call when no launcher is left. Resolves when the sidecar has ended. */
  async close(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#restart);
    const running = this.#running;
    if (running !== undefined) {
      const late = setTimeout(() => this.kill(), EXIT_WITHIN_MS);
      if (running.child.connected) running.child.disconnect();
      await running.gone;
      clearTimeout(late);
    }
    if (this.#socketDir !== this.#options.dir) await removeTree(this.#socketDir);
  }

  #hear(message: FromSharedSidecar): void {
    this.#unanswered = 0;
    switch (message.kind) {
      case 'alive':
        return;
      case 'listening':
        this.#state = 'listening';
        break;
      case 'listen-failed':
        this.#options.log.warn(`tasks cannot share a sidecar, each has its own: ${message.why}`);
        this.#state = 'none';
        this.#isOver = true;
        break;
      case 'life-begun':
        this.#launchers.add(message.launcher);
        return;
      case 'life-over':
        this.#launchers.delete(message.launcher);
        break;
      case 'numbers':
        this.#now = message.numbers;
        return;
    }
    this.#changes.notify();
  }

  /**
   * Running launchers notice the death themselves, and connect to the next sidecar. For launchers that have ended,
   * nobody asks again.
   */
  #died(how: string): void {
    this.#launchers.clear();
    this.#before = { ...this.numbers(), lagMs: 0, waitingFiles: 0 };
    this.#now = NO_NUMBERS;
    this.#changes.notify();
    if (this.#isOver) return;
    const nowMs = clockMs();
    this.#deathsAtMs.push(nowMs);
    const recent = this.#deathsAtMs.filter((atMs) => nowMs - atMs < DEATHS_WITHIN_MS).length;
    const waitMs = pauseAfter(RESTART, recent - 1);
    this.#options.log.warn(
      `the sidecar of all tasks died (${how}); they go on, a new one starts in ${formatMs(waitMs)}`,
      { event: 'sidecar-restarted' },
    );
    this.#restart = setTimeout(() => this.start(), waitMs);
  }
}

/** Open files of its own, and the most for each task. Measured: 22, and 20 for each task. */
const OWN_OPEN_FILES = 64;
const OPEN_FILES_OF_A_TASK = 32;

/** With more tasks the sidecar would run out of open files. The other tasks get a sidecar of their own. */
export function mostSharing(openFiles: number): number {
  return Math.max(0, Math.floor((openFiles - OWN_OPEN_FILES) / OPEN_FILES_OF_A_TASK));
}

/** Called before the process starts threads and the task, so that all inherit the niceness. */
export function lowerTo(niceness: number, pid: number): void {
  try {
    os.setPriority(pid, niceness);
  } catch {
    // The process has ended.
  }
}

/** Variables by which the sidecar finds the store and its directories. It gets them from us, not from a launcher. */
const ITS_OWN =
  /^(AWS_|AZURE_|CAPTURE_|CLOUDSDK_|GCE_|GOOGLE_|IDENTITY_|MSI_|NODE_|SSL_|STORAGE_)|^(TMPDIR|HOME)$|_proxy$/i;

/** Whether a task with these variables of its own may share a sidecar with others. */
export function mayShareSidecar(variables: Readonly<Record<string, string>>): boolean {
  return !Object.keys(variables).some((name) => ITS_OWN.test(name));
}
