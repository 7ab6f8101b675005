// One schedule, from its plan to the findings of the oracle: attempts one after the other, each on a machine of its
// own, with one store.
import { prepareMd5 } from '../../../src/model/md5.ts';
import { pathOf } from '../machine/inode.ts';
import { Dead } from '../machine/process.ts';
import { enterWorld, World } from '../machine/world.ts';
import { type Finding, Oracle } from '../oracle/oracle.ts';
import type { AttemptPlan, Plan } from '../program/plan.ts';
import { fileCalls } from '../replaced/file-calls.ts';
import { takeMemoryBack } from '../replaced/memory.ts';
import { connectTo } from '../replaced/transport.ts';
import { isCalm } from '../store/network.ts';
import { S3Server } from '../store/s3-server.ts';
import { Attempt } from './attempt.ts';
import { hearCrashes } from './crashes.ts';
import { STORE_DIR } from './settings.ts';

export interface Outcome {
  readonly findings: readonly Finding[];
  readonly counts: ReadonlyMap<string, number>;
  readonly events: number;
  readonly virtualMs: number;
}

const HOUR_MS = 3_600_000;
/** The longest schedules have a tenth of these events, and each event leaves something in this process. */
const MOST_EVENTS = 300_000;
/** Attempts after those with faults: a store that fails for a while may end some of them, too. */
const CALM_ATTEMPTS = 8;
/** If they may fail forever: further ones show nothing new. */
const FEW_CALM_ATTEMPTS = 3;

export async function runSchedule(plan: Plan, trace?: (line: string) => void): Promise<Outcome> {
  await prepareMd5();
  takeMemoryBack();
  const world = new World({ ...plan, trace });
  enterWorld(world);
  try {
    const schedule = new Schedule(plan, world);
    hearCrashes((error) => schedule.crashed(error));
    await schedule.run();
    // Uncaught errors are reported once the queue of ticks is empty.
    await new Promise((resolve) => globalThis.setImmediate(resolve));
    for (const [what, times] of schedule.oracle.counts) world.counts.set(what, times);
    return {
      findings: schedule.oracle.findings,
      counts: world.counts,
      events: world.scheduler.events,
      virtualMs: world.nowMs,
    };
  } finally {
    hearCrashes(() => undefined);
    enterWorld(undefined);
  }
}

class Schedule {
  readonly oracle: Oracle;
  readonly #plan: Plan;
  readonly #world: World;
  readonly #server: S3Server;
  readonly #zombies: Attempt[] = [];
  #serial = 0;
  #number = 0;

  constructor(plan: Plan, world: World) {
    this.#plan = plan;
    this.#world = world;
    this.#server = new S3Server({
      nowMs: () => world.timeOfDayMs,
      onChange: (key) => this.oracle.changed(key.replace(/^p\//, '')),
      honoursIfMatch: plan.honoursIfMatch,
    });
    connectTo(this.#server, plan.weather);
    this.oracle = new Oracle({
      plan,
      nowMs: () => world.nowMs,
      objectAt: (key) => this.#objectAt(key),
      keys: () => this.#keys(),
    });
    this.#listenToFiles();
    world.scheduler.onUncaught = (process, error) => {
      this.#world.trace(`uncaught in ${process.name}: ${String(error)}`);
      this.crashed(error);
      world.kernel.exit(process, 1 << 8);
    };
    world.onSpin = (process) =>
      this.oracle.fail('spins', `${process.name} makes calls without end, and waits for nothing`);
    for (const path of ['/bin', '/tmp', '/dev', '/root', '/pod']) fileCalls.mkdir(world.outside, path);
    for (const path of ['/bin/task', '/dev/stderr']) fileCalls.writeFile(world.outside, path, '');
  }

  /** An error that nobody has caught. Errors of dead processes have no effect. */
  crashed(error: unknown): void {
    if (error instanceof Dead || this.#hadDeaths()) return;
    this.oracle.fail('uncaught', error instanceof Error ? (error.stack ?? error.message) : String(error));
  }

  #hadDeaths(): boolean {
    return [...this.#world.counts.keys()].some((what) => what.includes('dies') || what.startsWith('death'));
  }

  async run(): Promise<void> {
    const calm = { faults: [] };
    const attempts = [...this.#plan.attempts, ...Array.from({ length: CALM_ATTEMPTS }, () => calm)];
    // What a stopped writer has left is named until somebody deals with it.
    let isHalfWritten = false;
    for (const [at, attempt] of attempts.entries()) {
      const { status, hasStoppedDaemon } = await this.#runAttempt(at + 1, attempt);
      this.#world.trace(`attempt ${at + 1} has ended with ${status ?? 'no status'}`);
      this.#world.count(`exit status ${status ?? 'none'} (${this.#plan.command})`);
      if (status !== undefined) this.oracle.ended(status, { faults: attempt.faults, hasStoppedDaemon });
      isHalfWritten ||= hasStoppedDaemon;
      const { attempts, weather, options: chosen } = this.#plan;
      // If a task ends before anybody watches it, nobody may know how it ended.
      const mayFail =
        this.oracle.isBlind ||
        isHalfWritten ||
        attempts.length > 0 ||
        !isCalm(weather) ||
        chosen.includes('--drain-timeout');
      if (status !== 0 && !mayFail)
        this.oracle.fail(
          'failed-for-nothing',
          `nothing went wrong, and the run ended with ${status ?? 'no status'}`,
        );
      this.oracle.missing();
      if (status === 0) await this.#waitForTheRest(hasStoppedDaemon);
      if (status === 0 || this.oracle.findings.length > 0) return;
      const calmOnes = at + 1 - this.#plan.attempts.length;
      if (calmOnes >= FEW_CALM_ATTEMPTS && !this.#mustEndWell()) return;
    }
    this.oracle.fail('never-done', `${CALM_ATTEMPTS} attempts without faults did not end with 0`);
  }

  /** True if attempts without faults must end with 0 sooner or later. */
  #mustEndWell(): boolean {
    // A watch may get a stop signal before it is there, and a drain may get less time than the store takes.
    const { command, options } = this.#plan;
    // What a death has left is named until somebody deals with it (docs/semantics.md).
    return command === 'run' && !options.includes('--drain-timeout') && !this.oracle.hasLeft();
  }

  async #runAttempt(number: number, plan: AttemptPlan): Promise<Attempt> {
    const world = this.#world;
    const scene = { plan: this.#plan, world, oracle: this.oracle, nextSerial: () => (this.#serial += 1) };
    this.#number = number;
    this.oracle.attemptBegins();
    const attempt = new Attempt(scene, number, plan);
    attempt.start(plan);
    const untilMs = world.nowMs + HOUR_MS + durationOf(this.#plan);
    const isOver = (): boolean => world.nowMs > untilMs || !attempt.isAlive || attempt.isGone;
    await world.scheduler.run(() => isOver() || world.scheduler.events > MOST_EVENTS);
    if (!isOver()) this.oracle.fail('spins', `more than ${MOST_EVENTS} events, and no end`);
    if (attempt.isGone) this.#zombies.push(attempt);
    else if (attempt.isAlive) {
      this.oracle.fail('no-progress', `attempt ${number} has not ended after a virtual hour`);
      attempt.killAll();
    }
    return attempt;
  }

  /**
   * Stalled machines go on, and find that another attempt has the index. Requests that were cut arrive. Nothing that is
   * done is undone.
   */
  async #waitForTheRest(hasStoppedDaemon: boolean): Promise<void> {
    const { scheduler } = this.#world;
    const untilMs = this.#world.nowMs + 3 * HOUR_MS;
    await scheduler.run(() => this.#world.nowMs > untilMs);
    if (this.#zombies.some(({ isAlive }) => isAlive))
      this.oracle.fail('no-progress', 'a machine that stood still has not ended');
    for (const { status } of this.#zombies)
      this.#world.count(`exit status ${status ?? 'none'} (of a machine that stood still)`);
    // A machine that stalled before it claimed the index has run it once more.
    if (!this.#zombies.some(({ status }) => status === 0))
      this.oracle.ended(0, { faults: [], hasStoppedDaemon });
    this.oracle.missing();
  }

  /**
   * Listens to files: objects of a directory store get their names by rename, and local files are deleted when the
   * sidecar reclaims them.
   */
  #listenToFiles(): void {
    const { files } = this.#world.kernel;
    const ownDir = `${STORE_DIR}/.capture-store/`;
    files.onNamed = (dentry) => {
      const path = pathOf(dentry);
      if (this.#world.isTraced && path.startsWith(STORE_DIR)) this.#world.trace(`+  ${path}`);
      if (path.startsWith(`${STORE_DIR}/`) && !path.startsWith(ownDir) && dentry.inode.kind === 'file')
        this.oracle.changed(path.slice(STORE_DIR.length + 1));
    };
    files.onUnnamed = (dentry) => {
      if (this.#world.isTraced && dentry.inode.kind === 'file') this.#world.trace(`-  ${pathOf(dentry)}`);
      if (this.#world.process.name !== 'sidecar' || dentry.inode.kind !== 'file') return;
      const path = pathOf(dentry);
      const [, number = '', name] = /^\/work(\d*)\/\.capture\/reclaim\/(.*)$/.exec(path) ?? [];
      // A later attempt may have replaced what an earlier one stored.
      if (name === undefined || (number !== '' && Number(number) !== this.#number)) return;
      this.#world.count('a local file is reclaimed');
      this.oracle.deleted(name, dentry.inode.data.toString());
    };
  }

  #objectAt(key: string): string | undefined {
    if (this.#plan.store === 's3') return this.#server.objects.get(`p/${key}`)?.body.toString();
    const { outside, kernel } = this.#world;
    try {
      return kernel.find(outside, `${STORE_DIR}/${key}`, { follow: false }).dentry?.inode.data.toString();
    } catch {
      return undefined; // no such directory
    }
  }

  #keys(): readonly string[] {
    if (this.#plan.store === 's3')
      return [...this.#server.objects.keys()].map((key) => key.replace(/^p\//, ''));
    return this.#filesBelow(STORE_DIR).map((path) => path.slice(STORE_DIR.length + 1));
  }

  #filesBelow(dir: string): readonly string[] {
    const { outside, kernel } = this.#world;
    const inode = kernel.find(outside, dir, { follow: false }).dentry?.inode;
    return [...(inode?.entries.values() ?? [])].flatMap(({ name, inode: one }) =>
      one.kind === 'directory' ? this.#filesBelow(`${dir}/${name}`) : [`${dir}/${name}`],
    );
  }
}

function durationOf({ rounds }: Plan): number {
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
  return sum(
    rounds.map(
      ({ writes, pauseMs }) =>
        pauseMs + sum(writes.map(({ beforeMs, openMs }) => beforeMs + 2 * openMs + 400)),
    ),
  );
}
