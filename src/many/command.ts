// Read this first. `capture array`: asks the store what is done, makes a place for the work directories, and lets a runner
// start a launcher for each index that is left, until all have ended or somebody wants an end.
import { numberText } from '../array/columns.ts';
import { openHeard } from '../array/place.ts';
import { stateOf, STALE_AFTER_MS } from '../array/state.ts';
import { survey } from '../array/survey.ts';
import { readInherited } from '../launch/inherited.ts';
import { findCommand } from '../launch/task.ts';
import type { Log } from '../log/log.ts';
import { CaptureError } from '../model/errors.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import type { LifeNumbers } from '../model/format/shared-sidecar.ts';
import { hasIndex, indicesOf, numberOfIndex } from '../model/index-set.ts';
import { showCommand } from '../model/many/placeholders.ts';
import { Plan } from '../model/many/plan.ts';
import { showLines, showPath } from '../model/path.ts';
import { formatBytes, plural } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import { notify } from '../notify/notify.ts';
import { ArraySource } from './array-source.ts';
import { type Beside, withSidecar } from './beside.ts';
import { type JoblogFile, openJoblog } from './joblog-file.ts';
import { type Asked, withoutOwn } from './line.ts';
import { thisMachine, type ThisMachine } from './machine.ts';
import { openSharedNotice } from './notice.ts';
import { openPushes, type Pushes } from './pushes.ts';
import { Runner, whyNever } from './runner.ts';
import { openScratch, type Scratch } from './scratch.ts';
import type { Push } from './slot.ts';
import { openView, progressText, type Shown, type View } from './view.ts';

/** What the command works with. */
export interface Tools {
  readonly log: Log;
  /** stdout. */
  readonly print: (text: string) => void;
  readonly env: NodeJS.ProcessEnv;
  /** The module that runs one task. */
  readonly entry: string;
  /** The module of the sidecar. */
  readonly sidecarEntry: string;
}

/** Resolves to the exit status. Throws a CaptureError or a StoreError when nothing was started. */
export async function runArray(asked: Asked, tools: Tools): Promise<ExitStatus> {
  const { settings } = asked;
  const pushes = openPushes({
    ignored: readInherited(tools.env).ignoredSignals,
    notices: settings.notices.signals,
  });
  try {
    findProgram(asked, tools.env);
    const plan = await planOf(asked, tools, pushes.stopping).catch((error: unknown) => {
      // Whatever failed because of it.
      if (!pushes.stopping.aborted) throw error;
    });
    if (plan === undefined) return pushes.last()?.status ?? EXIT.preempted;
    if (asked.dryRun) return dryRun(asked, plan, tools);
    const status = await runPlan(asked, plan, { ...tools, pushes });
    await tellEnd(asked, plan, { status, log: tools.log });
    return status;
  } finally {
    pushes.close();
  }
}

/** A mistyped name would fail each task. Throws status 126 or 127. */
function findProgram({ tasks, cwd }: Asked, env: NodeJS.ProcessEnv): void {
  for (const index of indicesOf(tasks.indices)) {
    const [command = ''] = tasks.commandOf(index).argv;
    findCommand(command, cwd, env['PATH']);
    return;
  }
}

/** What is to be done: all that the store does not know as done. One listing tells. */
async function planOf(asked: Asked, tools: Tools, signal: AbortSignal): Promise<Plan> {
  const { tasks, retries, halt, settings, taskName } = asked;
  const plan = new Plan({ indices: tasks.indices, retries, halt });
  // What was done under another run id is not done; only the records say so, and each run looks at its own.
  if (settings.identity.runId !== undefined) return plan;
  const { store, close } = await openHeard({ settings: settings.to, taskName }, tools);
  try {
    const found = await survey({ store, taskName }, clockMs(), signal);
    for (const row of found.rows) {
      const index = numberOfIndex(row.index);
      const isDone = stateOf(row, found.nowMs, STALE_AFTER_MS) === 'done';
      if (isDone && index !== undefined && hasIndex(tasks.indices, index)) plan.doneAlready(index);
    }
  } finally {
    await close();
  }
  return plan;
}

async function runPlan(asked: Asked, plan: Plan, tools: RunTools): Promise<ExitStatus> {
  if (plan.counts().waiting === 0) {
    tools.log.info(`${startText(asked, plan)}: nothing is left to do`, {
      event: 'done-already',
      hint: 'to run them anew: another --to, or capture rm',
    });
    return plan.verdict();
  }
  const machine = machineFor(asked);
  const joblog = asked.joblog === undefined ? undefined : openJoblog(asked.joblog, tools.log);
  try {
    const { availableBytes } = machine.now();
    const tasksAtOnce = Math.min(atOnceAtMost(asked, machine), plan.counts().waiting);
    const scratch = await openScratch(asked.scratch, { tasksAtOnce, availableBytes, log: tools.log });
    try {
      return await runIn(scratch, { asked, plan, machine, joblog, tools });
    } finally {
      await scratch.close();
    }
  } finally {
    joblog?.close();
  }
}

/** Throws status 64 if it can run none of the tasks. */
function machineFor({ needs }: Asked): ThisMachine {
  const machine = thisMachine();
  const never = whyNever(needs, machine);
  if (never === undefined) return machine;
  throw new CaptureError(EXIT.usage, `no task can run here: ${never}`, {
    hint: 'take a larger machine, or say what a task really needs',
  });
}

interface RunTools extends Tools {
  readonly pushes: Pushes;
}

interface Around {
  readonly asked: Asked;
  readonly plan: Plan;
  readonly machine: ThisMachine;
  readonly joblog: JoblogFile | undefined;
  readonly tools: RunTools;
}

async function runIn(scratch: Scratch, around: Around): Promise<ExitStatus> {
  const { asked, tools } = around;
  let shown: Shown | undefined;
  const view = openView(tools.log, () => shown);
  const options = {
    entry: tools.sidecarEntry,
    dir: scratch.root,
    lockFd: scratch.lockFd,
    tasksAtOnce: atOnceAtMost(asked, around.machine),
    env: withoutOwn(tools.env),
    nice: asked.nice,
    log: view.log,
  };
  const show = (what: Shown): Shown => (shown = what);
  try {
    return await withSidecar(options, (beside) => runTasks({ ...around, ...beside, scratch, view, show }));
  } finally {
    view.close();
  }
}

interface Tasks extends Around, Beside {
  readonly scratch: Scratch;
  readonly view: View;
  /** What the view shows from now on. */
  readonly show: (shown: Shown) => Shown;
}

async function runTasks({ asked, plan, machine, tools, ...around }: Tasks): Promise<ExitStatus> {
  const { scratch, joblog, view, sidecar, ownChildren, seats } = around;
  const { log } = view;
  const where = `work directories in ${scratch.words}`;
  log.info(`${startText(asked, plan)}; ${machineText(asked, machine)}; ${where}`, { event: 'start' });
  let runner: Runner | undefined;
  let isNoticed = false;
  const notice = openSharedNotice(asked.settings.notices, scratch.root, {
    log,
    changed: (stands) => {
      isNoticed = stands;
      runner?.noticed(stands);
    },
  });
  const { env, entry } = tools;
  // Of another run id only the records tell: each run looks at its own.
  const added = [notice.option, ...(asked.settings.identity.runId === undefined ? [] : ['--skip-done'])];
  const means = { scratch, joblog, log, env, entry, sidecar, ownChildren, seats };
  const source = new ArraySource({ asked, plan, added, ...means });
  const running = new Runner({ source, machine, jobs: asked.jobs, maxLoad: asked.maxLoad, log });
  runner = running;
  const { durations } = source;
  const numbers = (): LifeNumbers => sidecar.numbers();
  const shown = around.show({ plan, durations, running: () => running.running(), numbers });
  const { pushes } = tools;
  pushes.listen({
    pushed: ({ how, signal }) => {
      log.warn(`${signal}: ${PUSH_TEXTS[how]}`);
      plan.stop('now');
      running.push(how);
      if (how === 'kill') sidecar.kill();
    },
    noticed: (signal) => notice.signalled(signal),
    passedOn: (signal) => running.signal(signal),
  });
  try {
    await running.run();
    if (isNoticed) plan.stop('soon');
    // It says last what was stored in all.
    await sidecar.close();
    view.close();
    const hint = plan.counts().waiting > 0 ? 'run the same again: it does what is left' : undefined;
    tools.log.info(progressText(shown), { event: 'end', hint });
    const status = plan.verdict();
    return status === EXIT.preempted ? (pushes.last()?.status ?? status) : status;
  } finally {
    notice.close();
  }
}

const PUSH_TEXTS: Readonly<Record<Push, string>> = {
  again: 'every task is told to checkpoint and end (the next Ctrl-C waits for no checkpoint)',
  faster: 'every task is ended, with or without a checkpoint (the next Ctrl-C kills all)',
  kill: 'all is killed: what was stored stays',
};

function startText({ taskName, settings }: Asked, plan: Plan): string {
  const { doneAlready } = plan.counts();
  const done = doneAlready === 0 ? '' : `, ${numberText(doneAlready)} are done`;
  return `array of ${plural(plan.size, 'task')} ${taskName} -> ${settings.to.url}${done}`;
}

/** By what is known before the first has run. */
function atOnceAtMost({ jobs, needs }: Asked, machine: ThisMachine): number {
  const { cores, memoryBytes } = needs;
  const byMemory = memoryBytes === undefined ? Infinity : Math.floor(machine.memoryBytes / memoryBytes);
  return Math.max(1, Math.min(jobs, Math.floor(machine.cores / cores), byMemory));
}

function machineText(asked: Asked, machine: ThisMachine): string {
  const has = `${plural(machine.cores, 'core')}, ${formatBytes(machine.memoryBytes)}`;
  return `at most ${atOnceAtMost(asked, machine)} at once (${has})`;
}

/** What would be run, each with its command; nothing is made. */
function dryRun(asked: Asked, plan: Plan, { print }: Tools): ExitStatus {
  print(`${showPath(startText(asked, plan))}; ${machineText(asked, machineFor(asked))}\n`);
  for (let index = plan.next(); index !== undefined; index = plan.next()) {
    print(`${index}: ${showLines(showCommand(asked.tasks.commandOf(index).argv))}\n`);
    plan.started(index, 0);
  }
  if (asked.onEnd !== undefined) print(`at the end: ${showLines(asked.onEnd)}\n`);
  return EXIT.ok;
}

/** Of an array that is to be run again nobody is told that it is over. */
async function tellEnd(
  { settings, taskName: task }: Asked,
  plan: Plan,
  { status, log }: { readonly status: ExitStatus; readonly log: Log },
): Promise<void> {
  const counts = plan.counts();
  if (settings.notify === undefined || counts.waiting > 0) return;
  const event = status === EXIT.ok ? 'all-done' : 'failed';
  const { done, doneAlready, failed } = counts;
  const text = `${task}: ${numberText(done + doneAlready)} of ${numberText(plan.size)} done, ${numberText(failed)} failed`;
  const told = { event, text, task, status, store: settings.to.url, counts: { ...counts } } as const;
  const why = await notify(settings.notify, told, new AbortController().signal);
  if (why !== undefined) log.warn(`--notify did not work: ${why}`);
}
