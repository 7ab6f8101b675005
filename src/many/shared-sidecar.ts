// The sidecar that all tasks of this machine share: started here, and again whenever it dies; the launchers find it by a
// variable and connect by themselves. Where it cannot be, each task has a sidecar of its own, as without a runner.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { noteOwn } from '../launch/own-children.ts';
import { type StartedSidecar, startSharedSidecar } from '../launch/sidecar-start.ts';
import type { Log } from '../log/log.ts';
import { reasonOf } from '../model/errors.ts';
import { LONGEST_SOCKET_PATH_BYTES } from '../model/format/control.ts';
import {
  CLOCK_VARIABLE,
  type FromShared,
  type LifeNumbers,
  NO_NUMBERS,
  numbersOf,
  SIDECAR_VARIABLE,
} from '../model/format/shared-sidecar.ts';
import { formatMs } from '../model/units.ts';
import { type BackOff, Changes, pauseAfter } from '../model/waiting.ts';
import { clockMs, clockOffsetMs } from '../native/clock.ts';
import { openFilesLimit, sendSignal } from '../native/processes.ts';

const RESTART: BackOff = { firstMs: 50, mostMs: 10_000 };
/** Deaths that are longer ago than this do not make the next pause longer. */
const DEATHS_WITHIN_MS = 10 * 60_000;
/** A start that takes longer than this does not hold up the tasks: their launchers try for a while. */
const LISTENS_WITHIN_MS = 5000;
/** One that is asked so often, and has not answered by the second question after it, hangs. */
const ASK_EVERY_MS = 30_000;
const MOST_UNANSWERED = 2;
/** Without a life it only has to exit. */
const EXIT_WITHIN_MS = 10_000;
/** The name under which it is made is longer than its own (sidecar/serve). */
const NAME = 'sidecar';
const LONGEST_NAME = `${NAME}.new`;

export interface SharedSidecarOptions {
  /** The module to run. */
  readonly entry: string;
  /** A directory of ours alone; the socket stands there if its path is short enough. */
  readonly dir: string;
  readonly env: NodeJS.ProcessEnv;
  readonly tasksAtOnce: number;
  /** Of the scratch directory: nobody removes that while it is read. */
  readonly lockFd: number;
  /** Of the tasks: it is never before them. */
  readonly nice: number | undefined;
  readonly log: Log;
  /** Running children that we started ourselves; kept up to date here. */
  readonly ownChildren: Set<number>;
  /** By default 30 s. */
  readonly askEveryMs?: number;
}

/** The sidecar as one task uses it. */
export interface SidecarShare {
  /** For its launcher: where the sidecar is; empty if there is none. */
  env(): NodeJS.ProcessEnv;
  /** The launcher is gone. */
  leave(): void;
}

export async function openSharedSidecar(options: SharedSidecarOptions): Promise<SharedSidecar> {
  const shared = new SharedSidecar(options, socketDir(options.dir));
  shared.start();
  await shared.listensWithin(LISTENS_WITHIN_MS);
  return shared;
}

/** A directory for our user only (unix(7): the path of a socket has 107 bytes at most). */
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
  /** Questions since it was heard last. */
  #unanswered = 0;
  /** Tasks that share it. */
  #sharing = 0;
  readonly #mostSharing = mostSharing(openFilesLimit());
  /** Of those that died, and of the one that runs. */
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
      return this.#died(reasonOf(error)); // ENOMEM is thrown at once
    }
    this.#running = started;
    const { child } = started;
    noteOwn(child, ownChildren);
    const { pid } = child;
    if (pid !== undefined) {
      if (nice !== undefined) lowerTo(nice, pid);
    }
    child.on('message', (message) => this.#hear(message as FromShared));
    const asking = this.#askAgain(started);
    void started.gone.then((how) => {
      clearInterval(asking);
      this.#running = undefined;
      this.#died(how);
    });
  }

  /** Stopped, or waiting for ever, it would stop all tasks: then it is killed, and the next one takes their attempts over. */
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

  /** For one more task; undefined if as many share it as it has open files for. */
  enter(): SidecarShare | undefined {
    if (this.#sharing >= this.#mostSharing) return undefined;
    this.#sharing += 1;
    return { env: () => this.#env(), leave: () => (this.#sharing -= 1) };
  }

  #env(): NodeJS.ProcessEnv {
    if (this.#state === 'none') return {};
    return { [SIDECAR_VARIABLE]: this.#socket, [CLOCK_VARIABLE]: String(clockOffsetMs()) };
  }

  /** Of all tasks since the beginning. */
  numbers(): LifeNumbers {
    return numbersOf([this.#before, this.#now]);
  }

  /** Resolves when it does nothing any more for the launcher with this pid, which is gone. */
  async lifeOver(launcher: number): Promise<void> {
    const never = new AbortController().signal;
    while (this.#launchers.has(launcher)) await this.#changes.next(never);
  }

  /** At once, and for good: what is not stored by now is not stored by it. */
  kill(): void {
    this.#isOver = true;
    clearTimeout(this.#restart);
    const pid = this.#running?.child.pid;
    if (pid !== undefined) sendSignal(pid, 'SIGKILL');
  }

  /** No launcher is left. Resolves when it has ended. */
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
    if (this.#socketDir !== this.#options.dir) fs.rmSync(this.#socketDir, { recursive: true, force: true });
  }

  #hear(message: FromShared): void {
    this.#unanswered = 0;
    switch (message.kind) {
      case 'alive':
        return;
      case 'listening':
        this.#state = 'listening';
        break;
      case 'deaf':
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

  /** Its launchers know by themselves, and ask the next one; those that are gone have nobody who asks. */
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

/** What it opens itself, and at most for one task: seen were 22, and 20 for each. */
const OWN_OPEN_FILES = 64;
const OPEN_FILES_OF_A_TASK = 32;

/** More tasks than that would take the open files from one another: the others have a sidecar of their own. */
export function mostSharing(openFiles: number): number {
  return Math.max(0, Math.floor((openFiles - OWN_OPEN_FILES) / OPEN_FILES_OF_A_TASK));
}

/** Before it starts threads and the task, which have it from its first thread. */
export function lowerTo(niceness: number, pid: number): void {
  try {
    os.setPriority(pid, niceness);
  } catch {
    // It has ended.
  }
}

/** Variables by which the sidecar finds the store and its places: it has them from us, and not from a launcher. */
const ITS_OWN = /^(AWS_|CAPTURE_|NODE_|SSL_)|^(TMPDIR|HOME)$|_proxy$/i;

/** May a task with these variables of its own share a sidecar with others? */
export function mayShareSidecar(variables: Readonly<Record<string, string>>): boolean {
  return !Object.keys(variables).some((name) => ITS_OWN.test(name));
}
