// One attempt on a machine of its own: `capture -- task`, or `capture watch` beside a task that something else starts.
// Starts its processes, and applies the faults of its plan.
import { launch } from '../../../src/launch/launch.ts';
import { main as sidecarMain } from '../../../src/sidecar/main.ts';
import { handOver } from '../../../src/sidecar/startup/restore-only.ts';
import { runStandalone } from '../../../src/sidecar/standalone/standalone.ts';
import { failureOf } from '../../../src/model/errors.ts';
import { openLog } from '../../../src/log/log.ts';
import { CaptureError } from '../../../src/model/errors.ts';
import { controlLine, parseAnswer } from '../../../src/model/format/control.ts';
import type { Settings } from '../../../src/model/format/settings.ts';
import { tellListeners } from '../machine/listeners.ts';
import { Dead, type SimProcess } from '../machine/process.ts';
import type { World } from '../machine/world.ts';
import type { Oracle } from '../oracle/oracle.ts';
import type { AttemptPlan, Fault, Plan } from '../program/plan.ts';
import { runTask } from '../program/task.ts';
import { type FindProgram, setPrograms } from '../replaced/child-process.ts';
import { fileCalls } from '../replaced/file-calls.ts';
import { environment } from '../replaced/globals.ts';
import { askAt } from '../replaced/net.ts';
import { isCalm } from '../store/network.ts';
import { settingsOf } from './settings.ts';

export interface Scene {
  readonly plan: Plan;
  readonly world: World;
  readonly oracle: Oracle;
  readonly nextSerial: () => number;
}

/**
 * The longest time from a close until it is stored if nothing goes wrong: ten seconds, and the time to send it
 * (docs/semantics.md).
 */
const BOUND_MS = 15_000;
/** This long after the death of a sidecar, all is as before. */
const RECOVERED_MS = 30_000;
const FLUSH_MS = 30_000;
const FLUSH_RETRY_MS = 200;
const MOST_FLUSH_TRIES = 50;
/** A container is restarted after this time. */
const RESTART_MS = 1500;
const MOST_RESTARTS = 5;

export class Attempt {
  /** The exit status of what the user has started. */
  status: number | undefined;
  readonly #scene: Scene;
  readonly #workdir: string;
  readonly #exitFile: string;
  readonly #settings: Settings;
  /** The launcher; for `capture watch`, a process in place of the pod. */
  #main: SimProcess | undefined;
  #sidecar: SimProcess | undefined;
  #task: SimProcess | undefined;
  /** What writes: the task itself, or a child of it. */
  #program: SimProcess | undefined;
  readonly #daemons: SimProcess[] = [];
  #isEnding = false;
  #isTermed = false;
  /** When the last fault happened. A fault that no new sidecar repairs counts forever. */
  #troubledAtMs = -Infinity;
  #restarts = 0;
  /** From when on somebody watches what the task does. */
  #watchedFromMs = Infinity;
  /** True if the machine stalls, or did: the next attempt began meanwhile. */
  isGone = false;

  constructor(scene: Scene, number: number, attempt: AttemptPlan) {
    this.#scene = scene;
    const { plan, world } = scene;
    this.#workdir = plan.sameWorkdir && !freezes(plan) ? '/work' : `/work${number}`;
    this.#exitFile = `/pod/status${number}`;
    fileCalls.mkdir(world.outside, this.#workdir, { recursive: true });
    this.#settings = settingsOf(plan, attempt, { workdir: this.#workdir, exitFile: this.#exitFile });
  }

  /** True while one of its processes runs. */
  get isAlive(): boolean {
    // Asked after each event.
    return (
      this.#main?.isAlive === true ||
      this.#sidecar?.isAlive === true ||
      this.#task?.isAlive === true ||
      this.#program?.isAlive === true ||
      this.#daemons.some(({ isAlive }) => isAlive)
    );
  }

  /** True if launcher and sidecar are gone: nobody sees what the task closes. */
  get #isAlone(): boolean {
    return this.#main?.isAlive !== true && this.#sidecar?.isAlive !== true;
  }

  /** True if a leftover process of the task was ended: nothing is promised for what it wrote. */
  get hasStoppedDaemon(): boolean {
    return this.#daemons.some(({ status }) => status !== 0);
  }

  get #processes(): readonly SimProcess[] {
    const all = [this.#sidecar, this.#main, this.#task, this.#program, ...this.#daemons];
    return [...new Set(all)].filter((one) => one !== undefined);
  }

  start({ faults }: AttemptPlan): void {
    const { world, plan } = this.#scene;
    const programs: FindProgram = (file) =>
      file === '/bin/task'
        ? {
            name: 'task',
            began: (process) => (this.#task = process),
            run: (process) => this.#startTask(process, process.environment['CAPTURED_RESTORED'] ?? ''),
          }
        : {
            name: 'sidecar',
            began: (process) => (this.#sidecar = process),
            run: (process) => this.#runSidecar(process),
          };
    // A new machine has room, or somebody has made room in the store.
    world.kernel.full = undefined;
    this.#main = world.kernel.spawn({
      parent: undefined,
      name: plan.command === 'run' ? 'capture' : 'pod',
      environment,
    });
    const main = this.#main;
    setPrograms(main, programs);
    if (plan.command === 'run') this.#soon(main, () => void this.#launch(main));
    else this.#startPod(main);
    for (const fault of faults) {
      const strike = (): void => (this.isAlive && !this.isGone ? this.#strike(fault) : undefined);
      world.scheduler.at(world.nowMs + fault.atMs, undefined, strike);
    }
  }

  killAll(): void {
    this.#isEnding = true;
    const all = this.#processes.filter(({ isAlive }) => isAlive);
    // All at once: none sees another one die.
    for (const one of all) one.isAlive = false;
    for (const one of all) {
      one.isAlive = true;
      this.#scene.world.kernel.kill(one, 'SIGKILL');
    }
  }

  // --- capture -- task

  async #launch(process: SimProcess): Promise<void> {
    await this.#carryOut(process, () =>
      launch({
        settings: this.#settings,
        task: { command: '/bin/task', args: [] },
        sidecarEntry: '/capture/sidecar.cjs',
        say: (line, level) => this.#scene.world.trace(`launcher: ${level}: ${line}`),
        ignoredSignals: new Set(),
      }),
    );
  }

  /** Ends the process with the status of `act`, if it lives that long; an error is a status, too. */
  async #carryOut(process: SimProcess, act: () => Promise<number>): Promise<void> {
    const { world, oracle } = this.#scene;
    try {
      this.status = await act();
    } catch (error) {
      if (error instanceof Dead || !process.isAlive) return;
      world.trace(`${process.name}: ${String(error)}`);
      if (error instanceof CaptureError) this.status = error.status;
      else oracle.fail('crashed', error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
    if (process.isAlive) world.kernel.exit(process, (this.status ?? 70) << 8);
  }

  #runSidecar(process: SimProcess): void {
    this.#openStderr(process);
    sidecarMain();
  }

  #openStderr(process: SimProcess): void {
    const { kernel } = this.#scene.world;
    const fd = kernel.open(process, '/dev/stderr', 1);
    kernel.duplicate(process, fd, 2);
    kernel.close(process, fd);
  }

  // --- capture watch

  /** `capture restore --handoff`, then the task, and the watch beside it. */
  #startPod(pod: SimProcess): void {
    const { world, plan } = this.#scene;
    const restore = world.kernel.spawn({ parent: pod, name: 'restore', environment });
    this.#sidecar = restore;
    this.#soon(restore, () => {
      this.#openStderr(restore);
      void this.#carryOut(restore, async () => {
        const log = openLog(this.#settings.log);
        await readable(() =>
          handOver({ ...this.#settings, restore: true, handoff: true }, log, new AbortController().signal),
        );
        await log.close();
        return 0;
      });
    });
    restore.onDeath.add(() => {
      if (this.#isEnding) return;
      if (this.status !== 0) return this.#endPod();
      this.status = undefined;
      const task = world.kernel.spawn({ parent: pod, name: 'task', environment });
      this.#task = task;
      task.cwd = this.#workdir;
      this.#soon(task, () => this.#startTask(task, ''));
      task.onDeath.add(() => this.#taskDied(task));
      world.scheduler.at(world.nowMs + plan.watchAfterMs, undefined, () => this.#startWatch(pod));
    });
  }

  #startWatch(pod: SimProcess): void {
    if (this.#isEnding) return;
    const { world } = this.#scene;
    this.#watchedFromMs = Math.min(this.#watchedFromMs, world.nowMs);
    const watch = world.kernel.spawn({ parent: pod, name: 'sidecar', environment });
    this.#sidecar = watch;
    this.#soon(watch, () => {
      this.#openStderr(watch);
      void this.#carryOut(watch, async () => {
        const log = openLog(this.#settings.log);
        const status = await readable(() => runStandalone(this.#settings, log));
        await log.close();
        return status;
      });
    });
    watch.onDeath.add(() => {
      if (this.#isEnding) return;
      if (this.status !== undefined || (this.#restarts += 1) > MOST_RESTARTS) return this.#endPod();
      world.scheduler.at(world.nowMs + RESTART_MS, undefined, () => this.#startWatch(pod));
    });
    // The signal came before the watch existed.
    if (this.#isTermed) this.#termWatch(100);
  }

  #taskDied(task: SimProcess): void {
    if (this.#isEnding) return;
    const { world, plan } = this.#scene;
    const signal = task.status & 0x7f;
    const code = signal === 0 ? task.status >> 8 : 128 + signal;
    if (plan.exitFile === 'none' || (plan.exitFile === 'unless-killed' && signal !== 0))
      return this.#termWatch(1000);
    world.scheduler.at(world.nowMs + 1, undefined, () => {
      fileCalls.writeFile(world.outside, `${this.#exitFile}.new`, `${code}\n`);
      fileCalls.rename(world.outside, `${this.#exitFile}.new`, this.#exitFile);
    });
  }

  #termWatch(afterMs: number): void {
    const { world } = this.#scene;
    this.#isTermed = true;
    world.scheduler.at(world.nowMs + afterMs, undefined, () => {
      const watch = this.#sidecar;
      if (watch?.isAlive === true)
        world.scheduler.at(world.nowMs, watch, () => void tellListeners(watch, 'SIGTERM', 'SIGTERM'));
    });
  }

  #endPod(): void {
    this.#isEnding = true;
    const { kernel } = this.#scene.world;
    for (const one of [this.#task, this.#program, this.#main])
      if (one?.isAlive === true) kernel.kill(one, 'SIGKILL');
  }

  // --- both

  #soon(process: SimProcess, act: () => void): void {
    const { world } = this.#scene;
    world.scheduler.at(world.nowMs, process, act);
  }

  #startTask(task: SimProcess, restored: string): void {
    const { plan, world } = this.#scene;
    const { shellMs } = plan;
    if (shellMs === undefined) return this.#runProgram(task, restored);
    const { kernel } = world;
    const program = kernel.spawn({ parent: task, name: 'task', environment: task.environment });
    program.cwd = task.cwd;
    program.onDeath.add(() => {
      const signal = program.status & 0x7f;
      const status = signal === 0 ? program.status >> 8 : 128 + signal;
      world.scheduler.at(world.nowMs + 0.1, task, () => kernel.reap(program));
      world.scheduler.at(world.nowMs + shellMs, task, () => kernel.exit(task, status << 8));
    });
    // A shell that a signal kills leaves its program behind.
    task.onDeath.add(() => (program.isAlive ? this.#leave(program) : undefined));
    this.#runProgram(program, restored);
  }

  /** The process outlives the task. */
  #leave(process: SimProcess): void {
    const { world, oracle } = this.#scene;
    world.count('the task leaves a process behind');
    this.#daemons.push(process);
    process.onDeath.add(() => (process.status === 0 || this.#isEnding ? undefined : oracle.daemonStopped()));
  }

  #runProgram(process: SimProcess, restored: string): void {
    this.#program = process;
    this.#scene.world.task = process;
    const { plan, world, oracle, nextSerial } = this.#scene;
    runTask(process, {
      plan,
      nextSerial,
      onDaemon: (one) => this.#leave(one),
      oracle: {
        begun: (one, found) => (this.isGone ? undefined : oracle.begun(one, found, restored)),
        opened: (path) => (this.isGone ? undefined : oracle.opened(path)),
        closed: (path, content) => {
          if (world.isTraced) world.trace(`task: closed ${path}: ${content.slice(0, 30)}`);
          oracle.closed(path, content, this.isGone || this.#isAlone);
        },
        roundEnded: (round) => world.trace(`task: round ${round} is whole`),
        ended: () => world.trace('task: ends'),
      },
      flush: (one, then) => this.#flush(one, then),
    });
  }

  /** Like `capture flush`: asks again for a while if nobody answers. */
  #flush(process: SimProcess, then: () => void, tries = 1): void {
    const { world, oracle } = this.#scene;
    const socket = process.environment['CAPTURED_SOCKET'];
    if (socket === undefined || tries > MOST_FLUSH_TRIES) return then();
    const closes = oracle.closes;
    const line = controlLine({ kind: 'flush', timeoutMs: FLUSH_MS });
    askAt(socket, line, (text) => {
      const answer = text === undefined ? undefined : parseAnswer(text);
      world.count(`flush: ${answer?.kind ?? 'no answer'}`);
      if (world.isTraced) world.trace(`task: flush: ${text?.trim() ?? 'no answer'}`);
      if (answer?.kind === 'flushed' && answer.left.length === 0 && !this.isGone) oracle.flushed(closes);
      const next = answer === undefined ? () => this.#flush(process, then, tries + 1) : then;
      world.scheduler.at(world.nowMs + FLUSH_RETRY_MS, process, next);
    });
  }

  #strike(fault: Fault): void {
    const { world, plan, oracle } = this.#scene;
    const { kernel } = world;
    world.trace(`fault: ${JSON.stringify(fault)}`);
    world.count(`fault: ${fault.kind} (${plan.command})`);
    const isUntroubled = world.nowMs - this.#troubledAtMs > RECOVERED_MS;
    const isWatched = plan.command === 'run' || world.nowMs - this.#watchedFromMs > RECOVERED_MS;
    const isOfSidecar = fault.kind.startsWith('sidecar');
    this.#troubledAtMs = isOfSidecar
      ? world.nowMs + (fault.kind === 'sidecar-stalls' ? fault.ms : 0)
      : Infinity;
    const [main, sidecar, task] = [this.#main, this.#sidecar, this.#task];
    switch (fault.kind) {
      case 'sidecar-dies':
        if (sidecar !== undefined) kernel.kill(sidecar, 'SIGKILL');
        return;
      case 'sidecar-dies-at-call':
        if (sidecar !== undefined) sidecar.callsLeft = fault.calls;
        return;
      case 'sidecar-stalls':
        if (sidecar !== undefined) sidecar.stalledUntilMs = world.nowMs + fault.ms;
        return;
      case 'launcher-dies':
        if (plan.command === 'watch' || main === undefined) return;
        oracle.launcherDied();
        return kernel.kill(main, 'SIGKILL');
      case 'task-dies': {
        const struck = this.#program ?? task;
        if (struck !== undefined) kernel.kill(struck, 'SIGKILL');
        return;
      }
      case 'disk-full':
        kernel.full = { below: fault.below, untilMs: world.nowMs + fault.ms };
        return;
      // The notice source reports it.
      case 'notice':
        return;
      case 'machine-freezes':
        return this.#freeze(fault.ms);
      case 'machine-dies':
        if (isUntroubled && isWatched && isCalm(plan.weather)) oracle.dies(BOUND_MS);
        return this.killAll();
      case 'term':
        return this.#term(main, task);
    }
  }

  /** A stalled machine looks dead to others: another machine takes over the index. */
  #freeze(ms: number): void {
    this.isGone = true;
    const untilMs = this.#scene.world.nowMs + ms;
    for (const one of this.#processes) one.stalledUntilMs = untilMs;
  }

  /** A scheduler, or the end of a pod, sends signals to each process, in any order. */
  #term(main: SimProcess | undefined, task: SimProcess | undefined): void {
    const { world, plan } = this.#scene;
    if (plan.command === 'watch') {
      // Before the task exists, the whole pod is killed.
      if (task === undefined) return this.killAll();
      this.#termWatch(world.random.pick([0, 1, 20]));
      world.kernel.signal(task, 'SIGTERM');
      return;
    }
    if (main === undefined) return;
    world.scheduler.at(world.nowMs, main, () => void tellListeners(main, 'SIGTERM', 'SIGTERM'));
    if (task?.isAlive === true && world.random.chance(0.3)) world.kernel.signal(task, 'SIGTERM');
  }
}

function freezes({ attempts }: Plan): boolean {
  return attempts.some(({ faults }) => faults.some(({ kind }) => kind === 'machine-freezes'));
}

/** Runs `act`; its errors become those that the user would read (cli/main.ts). */
async function readable<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (error instanceof Dead) throw error;
    const { status, message, hint } = failureOf(error);
    throw new CaptureError(status, message, { hint, cause: error });
  }
}
