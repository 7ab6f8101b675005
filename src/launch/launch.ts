// Read this first. Runs one task with capture beside it, from finding its program to the exit status. The launcher
// stays tiny: it never loads a parser, a logger or a store.
import v8 from 'node:v8';
import { CaptureError } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import { compileManifest } from '../model/file/manifest.ts';
import type { MessageFields } from '../model/format/message-fields.ts';
import type { TaskEnd } from '../model/format/messages.ts';
import type { Settings } from '../model/format/settings.ts';
import { RUNNER_VARIABLE, SIDECAR_VARIABLE } from '../model/format/shared-sidecar.ts';
import { numberOfSignal } from '../native/ended.ts';
import { adoptRunnersClock } from '../native/clock.ts';
import { countKills, killsSince } from '../native/out-of-memory.ts';
import { readStat, sendSignal, setOpenFilesLimit, signalAtDeathOf } from '../native/processes.ts';
import { ownEnvironment } from '../native/cmdline-environ.ts';
import { blockable, type Inherited, readInherited } from './inherited.ts';
import {
  adoptOrphans,
  describeStuck,
  endLeftovers,
  type HeldWorkdir,
  holdWorkdir,
  type Orphans,
  usageOfBoth,
} from './leftovers.ts';
import { openOutputPipes, type OutputPipes } from './output-pipes.ts';
import { requeue } from './requeue.ts';
import { type SidecarEnding, type SidecarOpening, SidecarProcess } from './sidecar-process.ts';
import { sharesOurGroup, type StartedSidecar } from './sidecar-start.ts';
import { type KeptSignals, listenForSignals } from './signals.ts';
import { type EndRequest, Supervision } from './supervision.ts';
import { findCommand, startTask, type Task, taskEnvironment } from './task.ts';
import { Writers } from './writers.ts';

/** A fenced sidecar has nothing left to write; it gets this long to exit. */
const FENCED_GOODBYE_MS = 10_000;

interface LaunchOptions {
  readonly settings: Settings;
  readonly task: { readonly command: string; readonly args: readonly string[] };
  /** The sidecar's module. */
  readonly sidecarEntry: string;
  /** A sidecar that runs already and waits for its settings; the launcher takes it over. */
  readonly startedSidecar?: StartedSidecar;
  /** Prints for the user. It must write synchronously to fd 2. */
  readonly say: (line: string, level: 'info' | 'warn' | 'error', fields?: MessageFields) => void;
  /** Signals that the caller ignored: they stay ignored, for the task too. */
  readonly ignoredSignals: ReadonlySet<string>;
  /** Signals that came before the launch. */
  readonly keptSignals?: KeptSignals;
  /** Called once nothing works in the work directory any more. `hasRun`: the task had been started. */
  readonly ended?: ((status: ExitStatus, hasRun: boolean) => Promise<void>) | undefined;
}

/** Everything that lives as long as the launch. */
interface Launch extends LaunchOptions {
  readonly file: string;
  readonly workdir: HeldWorkdir;
  readonly inherited: Inherited;
  readonly sharesGroup: boolean;
  /** Running children that the launcher itself started. */
  readonly ownChildren: Set<number>;
  readonly orphans: Orphans;
  readonly outputs: OutputPipes;
  readonly sidecar: SidecarProcess;
  readonly supervision: Supervision;
}

/**
 * Starts the sidecar, then the task, and resolves to the exit status: the task's own, 128+N if signal N ended it, or
 * capture's own status.
 *
 * @throws CaptureError if nothing was started: 126, 127, 69, 76, or the status with which the sidecar refuses.
 */
export async function launch(options: LaunchOptions): Promise<ExitStatus> {
  const { settings, sidecarEntry: entry, startedSidecar: started } = options;
  adoptRunnersClock(process.env);
  const file = findCommand(options.task.command, settings.workdir, process.env['PATH']);
  const inherited = readInherited(process.env);
  if (inherited.openFilesLimit !== undefined) setOpenFilesLimit(inherited.openFilesLimit);
  const workdir = holdWorkdir(settings.workdir);
  // With a terminal the task stays in the launcher's process group, where the terminal's keys and job control reach
  // it. Without one it gets its own session, whose whole group can be signalled. The sidecar gets the same.
  const sharesGroup = sharesOurGroup();
  const ownChildren = new Set(started?.child.pid === undefined ? [] : [started.child.pid]);
  const orphans = adoptOrphans(ownChildren);
  const outputs = openOutputPipes({ settings, warn: (line, hint) => say(line, 'warn', { hint }) });
  const launcherFaults = (): number | undefined =>
    supervision.hasTaskEnded ? undefined : readStat(process.pid)?.childFaults;
  const sidecar = new SidecarProcess({
    entry,
    started,
    shared: process.env[SIDECAR_VARIABLE],
    settings,
    outputsFrom: settings.outputLimitBytes === 0 ? undefined : outputs.from,
    launcherFaults,
    ownChildren,
  });
  const say: LaunchOptions['say'] = (line, level, fields) =>
    options.say(line, level, { attempt: sidecar.attempt(), ...fields });
  const tell: SidecarProcess['tell'] = (message) => sidecar.tell(message);
  const supervision = new Supervision({ settings, sharesGroup, tell, say });
  const signals = listenForSignals(options.ignoredSignals, (signal) => supervision.received(signal));
  options.keptSignals?.passOn((signal) => supervision.received(signal));
  endWithRunner(runnerPid());
  sidecar.start({
    heard: (news) => supervision.heard(news),
    warn: (line, hint) => say(line, 'warn', { event: 'sidecar-restarted', hint }),
    slow: (line, hint) => say(line, 'warn', { hint }),
  });
  try {
    const launched: Launch = {
      ...options,
      say,
      file,
      workdir,
      inherited,
      sharesGroup,
      ownChildren,
      orphans,
      outputs,
      sidecar,
      supervision,
    };
    const status = await run(launched);
    await finish(launched, status);
    return status;
  } finally {
    await sidecar.close();
    await outputs.close();
    signals.close();
    supervision.close();
    orphans.close();
    workdir.close();
  }
}

/** The pid of the runner (`capture array` or `capture worker`) that started this launcher. */
function runnerPid(): string | undefined {
  return process.env[RUNNER_VARIABLE];
}

/** If the runner dies, nobody accounts for its tasks. So its death counts as a preemption of each. */
function endWithRunner(pid: string | undefined): void {
  if (pid !== undefined && !signalAtDeathOf(Number(pid), 'SIGTERM')) sendSignal(process.pid, 'SIGTERM');
}

/** After the run, while signals are still handled: requeueing ends the job, and this process with it. */
async function finish(
  { settings, ended, supervision, ownChildren, say }: Launch,
  status: ExitStatus,
): Promise<void> {
  await ended?.(status, supervision.hasTaskEnded);
  if (status !== settings.preemptedStatus || settings.requeue === undefined) return;
  const deadlineMs = supervision.lastCall.deadlineMs();
  await requeue(settings.requeue, { ownChildren, deadlineMs, say });
}

async function run(launched: Launch): Promise<ExitStatus> {
  const { sidecar, supervision } = launched;
  const opening = await Promise.race([sidecar.opened, supervision.endRequested]);
  if ('what' in opening) return endBeforeTask(launched, opening);
  if (opening.kind === 'done-already') return EXIT.ok;

  const killsBefore = countKills();
  const task = await start(launched, opening);
  // From here on this process only waits. Without the optimizing compiler it takes 4 MiB less. Not earlier: the
  // compiled code that Node has cached would no longer match (native/bootstrap.ts).
  v8.setFlagsFromString('--no-opt');
  const end = await task.ended;
  await supervision.taskEnded(end);
  const writersStoppedAtMs = await endLeftBehind(launched, opening.runToken, end.atMs);
  await launched.outputs.drain();

  const { lastCall } = supervision;
  supervision.tellCause(end);
  sidecar.tell({
    kind: 'task-ended',
    end,
    preempted: lastCall.preempted(),
    deadlineMs: lastCall.deadlineMs(),
    writersStoppedAtMs,
    usage: usageOfBoth(launched.orphans.usage, task.usage()),
    outOfMemory: killsSince(killsBefore, sidecar.hasDied),
  });
  const ending = supervision.isFenced ? await sidecar.endedWithin(FENCED_GOODBYE_MS) : await sidecar.ended;
  if (supervision.isFenced) return EXIT.fenced;
  const { settings } = launched;
  const status = verdict(ending, statusOf(end), settings);
  const isAgain = lastCall.preempted() || status === settings.preemptedStatus;
  const isSaved = ending.kind === 'ended' && ending.isSaved;
  // A runner removes the work directory of a task that is only to run again.
  return runnerPid() !== undefined && isAgain && !isSaved ? EXIT.notStored : status;
}

async function start(launched: Launch, opening: Extract<SidecarOpening, { kind: 'ready' }>): Promise<Task> {
  const { sidecar, supervision, settings } = launched;
  const { runToken: token, attempt, restored, socket } = opening;
  try {
    const task = await startTask({
      ...launched.task,
      file: launched.file,
      workdir: settings.workdir,
      env: taskEnvironment(ownEnvironment(), {
        index: settings.identity.index,
        attempt,
        restored,
        token,
        socket,
      }),
      sharesGroup: launched.sharesGroup,
      ignoredSignals: launched.ignoredSignals,
      blockedSignals: blockable(launched.inherited.blockedSignals, (line, hint) =>
        launched.say(line, 'warn', { hint }),
      ),
      outputs: launched.outputs.taskFds,
      fds: launched.inherited.fds,
      members: () => launched.orphans.members(sidecar.pid()),
      ownChildren: launched.ownChildren,
    });
    launched.outputs.begin();
    sidecar.tell({ kind: 'task-started', pid: task.pid });
    supervision.taskRuns(task);
    return task;
  } catch (error) {
    if (error instanceof CaptureError) {
      sidecar.tell({
        kind: 'task-not-started',
        status: error.status,
        reason: error.message,
        preempted: false,
      });
      await sidecar.endedWithin(settings.graceMs);
    }
    throw error;
  }
}

/**
 * No process of the task may still write when the final scan begins. Resolves to the time when the first process that
 * still wrote was told to end; undefined: there was none.
 */
async function endLeftBehind(
  launched: Launch,
  runToken: string,
  endedAtMs: number,
): Promise<number | undefined> {
  const { settings, supervision, orphans, sidecar, workdir } = launched;
  const { lastCall } = supervision;
  const { stuck, writersStoppedAtMs } = await endLeftovers({
    writers: new Writers(workdir, compileManifest(settings.manifest)),
    runToken,
    members: () => orphans.members(sidecar.pid()),
    change: (ms) => orphans.change(ms),
    writersUntilMs: () =>
      supervision.isFenced ? 0 : (lastCall.taskDeadlineMs() ?? endedAtMs + settings.graceMs),
    killAtMs: () => lastCall.taskDeadlineMs(),
  });
  if (stuck.length > 0) launched.say(describeStuck(stuck), 'warn');
  return writersStoppedAtMs;
}

/** A signal or a notice came while the sidecar was still restoring: the task is never started. */
async function endBeforeTask(launched: Launch, { what, signal }: EndRequest): Promise<ExitStatus> {
  const { settings, sidecar, say } = launched;
  const preempted = signal === undefined || signal === 'SIGTERM';
  const status = preempted ? settings.preemptedStatus : statusOfSignal(numberOfSignal(signal));
  const reason = `${what} before the task was started`;
  say(`${reason}: nothing was started`, 'warn', { event: 'refused', status });
  sidecar.tell({ kind: 'task-not-started', status, reason, preempted });
  await sidecar.endedWithin(settings.graceMs);
  return status;
}

/** Without a sidecar at the end, nobody can say that everything is stored. */
function verdict(
  ending: SidecarEnding,
  taskStatus: ExitStatus,
  { endRules, preemptedStatus }: Settings,
): ExitStatus {
  if (ending.kind === 'ended') return ending.status ?? taskStatus;
  if (endRules.againStatuses.includes(taskStatus)) return preemptedStatus;
  return taskStatus === EXIT.ok ? EXIT.notStored : taskStatus;
}

function statusOf(end: TaskEnd): ExitStatus {
  return end.code ?? statusOfSignal(numberOfSignal(end.signal));
}
