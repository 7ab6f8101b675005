// A running worker. Everything it uses is opened here, and closed in reverse order. `capture array` is a worker on a
// broker in memory, `capture worker` one on a queue.
import os from 'node:os';
import { adoptOrphans } from '../launch/leftovers.ts';
import type { Log } from '../log/log.ts';
import { textOfSignal } from '../model/format/stop-cause.ts';
import type { NoticeSettings } from '../model/format/settings.ts';
import { whyNever } from '../model/many/admission.ts';
import { CloseStack } from '../model/close-stack.ts';
import { formatBytes, plural } from '../model/units.ts';
import { Board, type Readiness } from './board.ts';
import type { WorkerBroker } from './broker.ts';
import { type JoblogFile, openJoblog } from './joblog.ts';
import { JobSlots, startLauncher } from './launcher.ts';
import { JobLeases } from './leases.ts';
import type { ThisMachine } from './machine.ts';
import { noticeOption, openSharedNotice } from './notice.ts';
import { type SubmittedTask, TaskOutcomes } from './outcomes.ts';
import { openPrepared, type Prepared } from './prepare.ts';
import { Runner } from './runner.ts';
import { openScratch, type Scratch } from '../scratch/scratch.ts';
import { openSharedSidecar, type SharedSidecar } from './shared-sidecar.ts';
import { BrokerSource, type CommandOf, needsOf, readinessOf } from './source.ts';
import type { Force, StopEscalation } from './stop-escalation.ts';
import type { RunnerTools } from './tools.ts';
import { type ArrayProgress, openView, type Progress, type View } from './view.ts';

/** How a worker uses this machine. */
export interface MachineUse {
  /** Infinity: as many tasks at once as fit. */
  readonly jobs: number;
  readonly nice: number | undefined;
  readonly maxLoad: number | undefined;
  readonly scratch: string | undefined;
  readonly joblog: string | undefined;
}

export interface WorkOptions {
  readonly broker: WorkerBroker;
  readonly use: MachineUse;
  readonly notices: NoticeSettings;
  readonly capabilities: readonly string[];
  readonly machine: ThisMachine;
  /** An upper limit. */
  readonly tasksAtOnce: number;
  readonly commandOf: CommandOf;
  /** The environment of all child processes. */
  readonly env: NodeJS.ProcessEnv;
  /** The array's progress. Undefined for a queue. */
  readonly array: (() => ArrayProgress) | undefined;
  readonly stops: StopEscalation;
  readonly tools: RunnerTools;
}

export interface Worker {
  /** Prints messages above the view. */
  readonly log: Log;
  readonly scratch: Scratch;
  readonly board: Board;
  readonly leases: JobLeases;
  readonly runner: Runner<SubmittedTask>;
  readonly prepared: Prepared;
  /** Running children that we started ourselves. */
  readonly ownChildren: Set<number>;
  /** Runs until a stop, or until nothing is left. Then it finishes storing, updates the queue, and closes the view. */
  run(): Promise<void>;
  progress(): Progress;
}

/** How long to wait for the queue to take the ends of the last tasks. */
const SETTLE_MS = 10_000;

/** Opens a worker, calls `act` with it, and always closes it. */
export async function withWorker<T>(options: WorkOptions, act: (worker: Worker) => Promise<T>): Promise<T> {
  const owned = new CloseStack();
  try {
    const base = await openBase(options, owned);
    const tasks = openTasks(options, base, owned);
    return await act({ ...base, ...tasks, run: () => run(options, { ...base, ...tasks }) });
  } finally {
    await owned.close();
  }
}

/** The parts of a worker that do not depend on its tasks. */
interface Base extends Pick<Worker, 'log' | 'scratch' | 'ownChildren'> {
  readonly joblog: JoblogFile | undefined;
  readonly view: View;
  readonly show: (progress: () => Progress) => void;
  readonly sidecar: SharedSidecar;
}

async function openBase(options: WorkOptions, owned: CloseStack): Promise<Base> {
  const { use, machine, tasksAtOnce, env, array, tools, stops } = options;
  const joblog =
    use.joblog === undefined
      ? undefined
      : owned.add(openJoblog(use.joblog, tools.log), (file) => file.close());
  const { availableBytes } = machine.now();
  const nameIt = (what: string): string => `name ${what} with --scratch`;
  const needs = {
    tasksAtOnce,
    hasAllTries: array !== undefined,
    availableBytes,
    nameIt,
    stopping: stops.stopping,
    log: tools.log,
  };
  const scratch = owned.add(await openScratch(use.scratch, needs), (one) => one.close());
  const ownChildren = new Set<number>();
  // Orphans of a killed launcher are reparented to us, also if we are process 1 of a container.
  owned.add(adoptOrphans(ownChildren), (orphans) => orphans.close());
  let shown: (() => Progress) | undefined;
  const view = owned.add(
    openView(tools.log, () => shown?.()),
    (one) => one.close(),
  );
  const { log } = view;
  const { root: dir, lockFd } = scratch;
  const how = { entry: tools.sidecarEntry, dir, lockFd, tasksAtOnce, env, nice: use.nice, log, ownChildren };
  const sidecar = owned.add(await openSharedSidecar(how), (one) => one.close());
  return { joblog, scratch, ownChildren, view, show: (progress) => (shown = progress), log, sidecar };
}

/** Opens what starts the tasks and handles their ends. */
function openTasks(
  options: WorkOptions,
  { joblog, scratch, ownChildren, show, log, sidecar }: Base,
  owned: CloseStack,
): Pick<Worker, 'board' | 'leases' | 'runner' | 'prepared' | 'progress'> {
  const { broker, use, machine, env, array, tools } = options;
  const changed = (): void => runner.wake();
  const mayBegin = (): boolean => runner.mayStart;
  const prepare = { root: scratch.root, env, log, ownChildren, changed, mayBegin };
  const prepared = owned.add(openPrepared(prepare), (one) => one.close());
  // An array starts in its current directory. If that is removed, each task fails with its own error.
  const readiness = array === undefined ? readinessOf : (): Readiness => ({ kind: 'ready' });
  const board = new Board({
    broker,
    ability: {
      capabilities: new Set(options.capabilities),
      whyNever: (submission) => whyNever(needsOf(submission), machine),
    },
    readiness: (one) => (one.prepare === undefined ? readiness(one) : prepared.ask(one)),
    log,
  });
  const leases = new JobLeases(broker, log);
  const isKept = owned.add(new AbortController(), (stop) => stop.abort());
  void leases.keep(isKept.signal);
  const host = array === undefined ? os.hostname() : undefined;
  const outcomes = new TaskOutcomes({ board, leases, joblog, scratch, host, log });
  const services = { sidecar, ownChildren, jobSlots: new JobSlots() };
  const source = new BrokerSource({
    broker,
    board,
    leases,
    outcomes,
    scratch,
    prepared,
    log,
    commandOf: options.commandOf,
    launch: { env, nice: use.nice, entry: tools.entry, options: [noticeOption(scratch.root)] },
    start: (launcher) => startLauncher(launcher, services),
    hasEnd: array !== undefined,
  });
  const runner = new Runner({ source, machine, jobs: use.jobs, maxLoad: use.maxLoad, log });
  const progress = (): Progress => ({
    counts: outcomes.counts(),
    array: array?.(),
    running: runner.running(),
    medianMs: outcomes.durations.medianMs(),
    numbers: sidecar.numbers(),
  });
  show(progress);
  return { board, leases, runner, prepared, progress };
}

async function run(
  { notices, stops, array }: WorkOptions,
  { log, scratch, runner, leases, sidecar, view }: Base & Pick<Worker, 'runner' | 'leases'>,
): Promise<void> {
  const changed = (stands: boolean): void => runner.noticed(stands);
  const notice = openSharedNotice(notices, scratch.root, { log, changed });
  stops.listen({
    stopped: ({ force, signal }) => {
      log.warn(`${signal}: ${STOP_TEXTS[force]}`);
      const who = array === undefined ? 'capture worker' : 'capture array';
      runner.stop(force, { why: signal, reason: `${who} got ${textOfSignal(signal)}` });
      if (force === 'kill') sidecar.kill();
    },
    noticed: (signal) => notice.signalled(signal),
    passedOn: (signal) => runner.signal(signal),
  });
  try {
    await runner.run();
  } finally {
    notice.close();
  }
  await leases.settled(AbortSignal.timeout(SETTLE_MS));
  // The last thing that it reports is the total stored.
  await sidecar.close();
  view.close();
}

const STOP_TEXTS: Readonly<Record<Force, string>> = {
  checkpoint: 'every task is told to checkpoint and end (press Ctrl-C again to stop without checkpoints)',
  faster: 'every task is ended, with or without a checkpoint (the next Ctrl-C kills all)',
  kill: 'all is killed: what was stored stays',
};

/** `8 cores, 31.2 GiB` */
export function machineText({ cores, memoryBytes }: ThisMachine): string {
  return `${plural(cores, 'core')}, ${formatBytes(memoryBytes)}`;
}
