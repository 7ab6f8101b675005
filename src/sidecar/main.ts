// The sidecar's process, started by the launcher. It reports signals and does not obey them; its orders come over the
// channel. If the launcher is gone, it goes on until no process of the task is left, and says so in the record.
import fs from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Log, openLog } from '../log/log.ts';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { FromSidecar, TaskEnd, ToSidecar } from '../model/format/messages.ts';
import type { NoticeChoice } from '../model/format/notice.ts';
import { prepareMd5 } from '../model/md5.ts';
import { isReported, JOB_SIGNALS } from '../model/relay.ts';
import { type BackOff, pauseAfter } from '../model/waiting.ts';
import { adoptClock, clockMs } from '../native/clock.ts';
import { openPidfd, type Pidfd } from '../native/ended.ts';
import { guardInspector } from '../native/inspector.ts';
import { lowerPriority } from '../native/priority.ts';
import { type Notices, openNotices } from '../notices/notices.ts';
import type { Sidecar } from './interface.ts';
import { describeFailure } from './run/failure.ts';
import { LAUNCHER_LOST, type RunEnd } from './shutdown/outcome.ts';
import { openSidecar } from './sidecar.ts';

/** Schedulers and terminals send these to every process of a job. */
const NOT_OBEYED = JOB_SIGNALS.filter(isReported);
/** A terminal sends these to a background process that writes; they must not stop us (termios(3), TOSTOP). */
const IGNORED = ['SIGTTIN', 'SIGTTOU'] as const;
/** A start that is no longer needed gets this long to end well: it may be waiting for a store that is down. */
const UNNEEDED_START_MS = 1000;

interface Life {
  /** Orders that follow `start` wait for it: a restarted sidecar may be told at once that the task has ended. */
  opening: Promise<void>;
  readonly giveUp: AbortController;
  log: Log | undefined;
  sidecar: Sidecar | undefined;
  notices: Notices | undefined;
  taskPid: number | undefined;
  task: Pidfd | undefined;
  finishing: boolean;
}

main();

function main(): void {
  guardInspector();
  const life: Life = {
    opening: Promise.resolve(),
    giveUp: new AbortController(),
    log: undefined,
    sidecar: undefined,
    notices: undefined,
    taskPid: undefined,
    task: undefined,
    finishing: false,
  };
  for (const signal of NOT_OBEYED) {
    process.on(signal, () => tell({ kind: 'signal-seen', signal, atMs: clockMs() }));
  }
  for (const signal of IGNORED) process.on(signal, () => undefined);
  process.on('message', (message: ToSidecar) => {
    obey(life, message).catch((error: unknown) => giveUp(life, error));
  });
  process.on('disconnect', () => {
    launcherLost(life).catch((error: unknown) => giveUp(life, error));
  });
  tell({ kind: 'hello', pid: process.pid });
}

async function obey(life: Life, message: ToSidecar): Promise<void> {
  if (message.kind === 'start') {
    life.opening = start(life, message);
    return life.opening;
  }
  const late =
    message.kind === 'task-not-started'
      ? setTimeout(() => life.giveUp.abort(new Error(message.reason)), UNNEEDED_START_MS)
      : undefined;
  await life.opening;
  clearTimeout(late);
  switch (message.kind) {
    case 'task-started':
      life.taskPid = message.pid;
      life.task = openPidfd(message.pid);
      life.sidecar?.taskStarted();
      return;
    case 'task-signalled':
      if (message.lastCall) life.sidecar?.taskSignalled(message.atMs);
      return;
    case 'noticed':
      life.sidecar?.noticed(message.deadlineMs);
      return;
    case 'task-ended':
      return finish(life, message.end, message);
    case 'task-not-started':
      return finish(
        life,
        { code: message.status, signal: undefined, atMs: clockMs() },
        { reason: message.reason, preempted: message.preempted },
      );
  }
}

async function start(life: Life, message: Extract<ToSidecar, { kind: 'start' }>): Promise<void> {
  adoptClock(message.clockOffsetMs);
  if (message.attempt !== undefined) lowerPriority(); // the task is at work already
  const log = openLog(message.settings.log, message.settings.identity.index);
  life.log = log;
  life.notices = listen(message.settings.notices.sources, life, log);
  try {
    await prepareMd5();
    const opened = await openSidecar({
      settings: message.settings,
      attempt: message.attempt,
      launcher: process.ppid,
      outputsFrom: message.outputsFrom,
      log,
      giveUp: life.giveUp.signal,
      onFenced: (text) => tell({ kind: 'fenced', message: text }),
      onDrainTakes: (ms) => tell({ kind: 'drain-takes', ms }),
    });
    if (opened.kind === 'done-already') return sayLast(life, opened);
    life.sidecar = opened.sidecar;
    const { attempt, restored, runToken, socket } = opened.sidecar;
    // Not before: the task's start waits for ours, and others on this machine are at work.
    lowerPriority();
    tell({ kind: 'ready', attempt, restored, runToken, socket });
  } catch (error) {
    await sayLast(life, { kind: 'refused', ...describeFailure(error) });
  }
}

/** Sends our messages before the launcher's last ones; then the process ends. */
async function sayLast(life: Life, message: FromSidecar): Promise<void> {
  await life.log?.close();
  tell(message, end);
}

/** Sources of notices are asked here, so that the launcher stays small. The launcher decides what they mean. */
function listen(choices: readonly NoticeChoice[], life: Life, log: Log): Notices {
  return openNotices({
    choices,
    env: process.env,
    log,
    onNotice: (notice) => {
      if (notice.kind === 'stop') return tell({ kind: 'notice', notice });
      log.warn(`${notice.what}: what is closed is made safe now`, { event: 'notice', source: notice.source });
      life.sidecar?.advised();
    },
    onWithdrawn: (notice) => tell({ kind: 'notice-withdrawn', notice }),
  });
}

async function finish(
  life: Life,
  taskEnd: TaskEnd,
  how: Partial<Pick<RunEnd, 'preempted' | 'deadlineMs' | 'writersStoppedAtMs' | 'reason' | 'seen' | 'usage'>>,
): Promise<void> {
  if (life.finishing || life.sidecar === undefined) return;
  life.finishing = true;
  const { status, last } = await life.sidecar.finish({
    end: taskEnd,
    preempted: how.preempted ?? false,
    signalledAtMs: undefined,
    deadlineMs: how.deadlineMs,
    writersStoppedAtMs: how.writersStoppedAtMs,
    reason: how.reason,
    seen: how.seen,
    usage: how.usage,
  });
  await life.notices?.done();
  life.notices?.close();
  await life.sidecar.close();
  // A start that failed stored nothing, so there is nothing to sum up: the launcher says why it failed.
  if (life.taskPid !== undefined) life.log?.[last.level](last.text, last.fields);
  await sayLast(life, { kind: 'ended', status });
}

/** The launcher is gone, and the results matter more: waits for the task, then drains. */
async function launcherLost(life: Life): Promise<void> {
  await life.opening;
  const { sidecar, log } = life;
  if (sidecar === undefined) return end();
  if (life.finishing) return; // The drain ends the process by itself.
  log?.error('the launcher is gone: going on until the task has ended');
  await taskIsGone(sidecar.runToken, life.taskPid);
  const atMs = clockMs();
  const ended = life.task?.ended();
  // Nobody saw how the task ended: a close that may be a death's stays one, and what the task surely closed itself is
  // whole.
  const seen = ended === undefined ? undefined : { ...ended, atMs };
  await finish(life, { code: EXIT.internal, signal: undefined, atMs }, { reason: LAUNCHER_LOST, seen });
}

function tell(message: FromSidecar, then?: () => void): void {
  if (!process.connected || process.send === undefined) {
    then?.();
    return;
  }
  // The callback comes when the message is in the socket: only then may the process end.
  process.send(message, undefined, undefined, () => then?.());
}

/** A bug, or something that no stage could handle: the launcher starts another sidecar, which scans again. */
function giveUp(life: Life, error: unknown): void {
  const hint = error instanceof CaptureError ? error.hint : undefined;
  life.log?.error(`the sidecar failed: ${reasonOf(error)}`, { hint, err: error });
  process.exit(EXIT.internal);
}

function end(): void {
  process.exit(0);
}

/** Nobody tells us of the end of processes that are not our children: we look again after a growing pause. */
const BACK_OFF: BackOff = { firstMs: 250, mostMs: 5000, factor: 1.5 };

/**
 * Resolves once no process of the task's group and none that carries its CAPTURED_RUN is left. Asked only if the launcher
 * is gone, whose task it is to know.
 */
async function taskIsGone(runToken: string, taskPid: number | undefined): Promise<void> {
  for (let looks = 0; await isAlive(runToken, taskPid); looks += 1) await sleep(pauseAfter(BACK_OFF, looks));
}

async function isAlive(runToken: string, taskPid: number | undefined): Promise<boolean> {
  const pids = (await fs.readdir('/proc')).filter(
    (name) => /^\d+$/.test(name) && name !== String(process.pid),
  );
  const found = await Promise.all(pids.map((pid) => belongs(pid, runToken, taskPid)));
  return found.includes(true);
}

async function belongs(pid: string, runToken: string, taskPid: number | undefined): Promise<boolean> {
  try {
    const stat = await fs.readFile(`/proc/${pid}/stat`, 'utf8');
    // After the name, which may hold any character: state, parent, group (proc(5)).
    const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (state === 'Z' || state === 'X') return false;
    if (taskPid !== undefined && Number(pid) === taskPid) return true;
    if (taskPid !== undefined && Number(group) === taskPid) return true;
    const environ = await fs.readFile(`/proc/${pid}/environ`, 'latin1');
    return environ.split('\0').includes(`CAPTURED_RUN=${runToken}`);
  } catch {
    return false; // gone meanwhile, or another user's: not the task's
  }
}
