// Keeps one sidecar running: starts it, speaks to it, and replaces it when it dies, so that neither its crash
// nor its absence touches the task. Never decides about the task.
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { pauseAfter, type BackOff } from '../model/back-off.ts';
import { createDeferred } from '../model/deferred.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { FromSidecar, News, ToSidecar } from '../model/format/messages.ts';
import type { Settings } from '../model/format/settings.ts';
import { formatMs } from '../model/units.ts';
import { clockMs, clockOffsetMs } from '../native/clock.ts';

/**
 * Its heap stays small: file contents are read in worker threads, outside this limit. Without an initial size V8
 * looks for garbage only when half of the limit is taken, by each thread.
 */
const NODE_FLAGS = ['--max-old-space-size=256', '--initial-old-space-size=16', '--max-semi-space-size=2'];
/** mallopt(3): each of a dozen threads keeping freed memory for itself would take 10 MiB more. */
const FEW_ARENAS = { MALLOC_ARENA_MAX: '2' };
const RESTART: BackOff = { firstMs: 100, mostMs: 10_000 };
/** So many deaths within this time are no accident: then it stays down. */
const DEATHS = 5;
const DEATHS_WITHIN_MS = 10 * 60_000;
/** After its last word it only has to exit. */
const EXIT_WITHIN_MS = 2000;

export type Opening = Extract<FromSidecar, { readonly kind: 'ready' | 'done-already' }>;
/** `lost`: it died too often, nobody records any more. */
export type Ending = Extract<FromSidecar, { readonly kind: 'ended' }> | { readonly kind: 'lost' };

export interface SidecarOptions {
  /** The module to run. */
  readonly entry: string;
  readonly settings: Settings;
  /** In our process group, as the task is. */
  readonly sharesGroup: boolean;
  readonly env: NodeJS.ProcessEnv;
  /** Running children that Node waits for; kept up to date here. */
  readonly nodeChildren: Set<number>;
  readonly heard: (news: News) => void;
  readonly warn: (line: string, hint?: string) => void;
}

export interface SidecarProcess {
  /** Rejects with the reason when it refuses, or dies before it is ready. */
  readonly opened: Promise<Opening>;
  readonly ended: Promise<Ending>;
  pid(): number | undefined;
  /** Undefined before it is ready. */
  attempt(): number | undefined;
  /** Sent now, and again to every replacement. */
  tell(message: ToSidecar): void;
  /** Lets it exit, or ends it; resolves when it is gone. */
  close(): Promise<void>;
}

export function startSidecar(options: SidecarOptions): SidecarProcess {
  const opened = createDeferred<Opening>();
  const ended = createDeferred<Ending>();
  /** What a replacement must be told again, by kind: the newest of each. */
  const told = new Map<ToSidecar['kind'], ToSidecar>();
  const deathsAtMs: number[] = [];
  let attempt: number | undefined;
  let child: ChildProcess | undefined;
  let restart: NodeJS.Timeout | undefined;
  let over = false;

  const start = (): void => {
    let started: ChildProcess;
    try {
      started = spawnSidecar(options);
    } catch (error) {
      return replace(reasonOf(error)); // ENOMEM is thrown at once; the task must not notice
    }
    child = started;
    const gone = (how: string): void => {
      child = undefined;
      if (!over) replace(how);
    };
    started.on('message', (message) => hear(message as FromSidecar));
    // Not 'exit': its last message may still be in the channel then.
    started.once('close', (code, signal) => started.pid !== undefined && gone(signal ?? `exit ${code}`));
    started.on('error', (error) => started.pid === undefined && gone(error.message));
    send(started, { kind: 'start', settings: options.settings, attempt, clockOffsetMs: clockOffsetMs() });
    for (const message of told.values()) send(started, message);
  };

  const replace = (how: string): void => {
    if (attempt === undefined) {
      over = true;
      opened.reject(diedTooEarly(how));
      return ended.resolve({ kind: 'lost' });
    }
    const nowMs = clockMs();
    deathsAtMs.push(nowMs);
    const recent = deathsAtMs.filter((atMs) => nowMs - atMs < DEATHS_WITHIN_MS).length;
    if (recent >= DEATHS) {
      over = true;
      options.warn(
        `the sidecar died ${recent} times within ${formatMs(DEATHS_WITHIN_MS)} (last: ${how}): nothing is stored any more`,
        'the task goes on; keep the work directory, and see the log for why the sidecar died',
      );
      return ended.resolve({ kind: 'lost' });
    }
    const waitMs = pauseAfter(RESTART, recent - 1);
    options.warn(`the sidecar died (${how}); the task goes on, a new one starts in ${formatMs(waitMs)}`);
    restart = setTimeout(start, waitMs);
  };

  const hear = (message: FromSidecar): void => {
    switch (message.kind) {
      case 'hello':
        return;
      case 'ready':
        attempt ??= message.attempt;
        return opened.resolve(message);
      case 'done-already':
        over = true;
        return opened.resolve(message);
      case 'refused':
        // A replacement that is refused has died of it: its exit starts the next one.
        if (attempt !== undefined) return options.warn(message.message, message.hint);
        over = true;
        opened.reject(new CaptureError(message.status, message.message, { hint: message.hint }));
        return ended.resolve({ kind: 'lost' });
      case 'signal-seen':
      case 'notice':
      case 'notice-withdrawn':
      case 'drain-takes':
      case 'fenced':
        return options.heard(message);
      case 'ended':
        over = true;
        return ended.resolve(message);
    }
  };

  start();
  return {
    opened: opened.promise,
    ended: ended.promise,
    pid: () => child?.pid,
    attempt: () => attempt,
    tell: (message) => {
      const before = told.get(message.kind);
      // The last call stays the last call, whatever signal follows it.
      if (!isLastCall(before) || isLastCall(message)) told.set(message.kind, message);
      if (child !== undefined) send(child, message);
    },
    close: async () => {
      over = true;
      clearTimeout(restart);
      if (child !== undefined) await endOf(child);
    },
  };
}

function spawnSidecar(options: SidecarOptions): ChildProcess {
  const child = spawn(process.execPath, [...NODE_FLAGS, options.entry], {
    // Only messages for the user go through fd 2; results of a pipeline go through the task's fd 1.
    stdio: ['ignore', 'ignore', 2, 'ipc'],
    env: { ...FEW_ARENAS, ...options.env },
    detached: !options.sharesGroup,
  });
  const { pid } = child;
  if (pid !== undefined) {
    options.nodeChildren.add(pid);
    child.once('exit', () => options.nodeChildren.delete(pid));
  }
  return child;
}

/** A channel that breaks is no error of its own: the sidecar's exit follows and is what counts. */
function send(child: ChildProcess, message: ToSidecar): void {
  if (child.connected) child.send(message, () => undefined);
}

function isLastCall(message: ToSidecar | undefined): boolean {
  return message?.kind === 'task-signalled' && message.lastCall;
}

function diedTooEarly(how: string): CaptureError {
  return new CaptureError(
    EXIT.unavailable,
    `the sidecar died before it was ready (${how}); nothing was started`,
    {
      hint: '--log-level debug says more; is the node out of memory or processes?',
    },
  );
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const late = setTimeout(() => child.kill('SIGKILL'), EXIT_WITHIN_MS);
  if (child.connected) child.disconnect();
  await exited;
  clearTimeout(late);
}
