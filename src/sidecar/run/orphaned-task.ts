// The processes of a task without a launcher: whoever finds such a task waits for them here, or ends them.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../log/log.ts';
import { KILL_AFTER_MS } from '../../model/relay.ts';
import { plural } from '../../model/units.ts';
import { type BackOff, pauseAfter } from '../../model/waiting.ts';
import { clockMs } from '../../native/clock.ts';
import {
  isZombie,
  processesWithEnvironment,
  type ProcessStat,
  processTable,
  sendSignal,
} from '../../native/processes.ts';

/** Processes that are not our children end without notifying us: we look again after a growing pause. */
const BACK_OFF: BackOff = { firstMs: 250, mostMs: 5000, factor: 1.5 };
/** A process that hangs in the kernel delays nothing for longer than this. */
const GIVE_UP_AFTER_MS = 7000;
const LOOK_EVERY_MS = 50;

/** A task whose launcher is gone. */
export class OrphanedTask {
  readonly #runToken: string;
  readonly #group: number | undefined;
  /** The members of its group at the last look. */
  #known: ReadonlySet<string>;

  /** `taskPid`: of the main process, and of its group if it has one; undefined if the launcher never said it. */
  constructor(runToken: string, taskPid: number | undefined) {
    this.#runToken = runToken;
    this.#group = taskPid;
    this.#known = new Set(membersOf(taskPid, processTable()).map(identityOf));
  }

  /** Resolves once no process of its group is left, and none with its CAPTURED_RUN, or when `signal` aborts. */
  async ended(signal: AbortSignal): Promise<void> {
    const isLeft = (): boolean => this.#named().length > 0 || this.#members(processTable()).length > 0;
    for (let looks = 0; !signal.aborted && isLeft(); looks += 1)
      await sleep(pauseAfter(BACK_OFF, looks), undefined, { signal }).catch(() => undefined);
  }

  /** Ends it. What a daemon has started for it (a job that it has submitted) stays, as with a launcher. */
  end(log: Log): Promise<void> {
    return endProcesses(() => this.#own(), log);
  }

  /** The kernel has given the orphans of the task to the process that it gave us to; a daemon's children stay its own. */
  #own(): readonly number[] {
    const table = processTable();
    const members = new Set(this.#members(table));
    const named = new Set(this.#named());
    const isOwn = (pid: number): boolean => {
      if (members.has(pid)) return true;
      const parent = named.has(pid) ? table.get(pid)?.parent : undefined;
      return parent !== undefined && (parent === process.ppid || isOwn(parent));
    };
    return [...new Set([...members, ...named])].filter(isOwn);
  }

  #named(): readonly number[] {
    return processesWithEnvironment(`CAPTURED_RUN=${this.#runToken}`).filter((pid) => pid !== process.pid);
  }

  /**
   * While a member lives, the kernel gives the group's number to nobody else. If none of the last look is left, others
   * may have it by now: what is left of the task is then found by its name alone.
   */
  #members(table: ReadonlyMap<number, ProcessStat>): readonly number[] {
    const found = membersOf(this.#group, table);
    if (!found.some((one) => this.#known.has(identityOf(one)))) return [];
    this.#known = new Set(found.map(identityOf));
    return found.map(([pid]) => pid);
  }
}

/** SIGTERM to all that live now, SIGKILL after 5 s to all that live then. Says which of them survive it. */
export async function endProcesses(living: () => readonly number[], log: Log): Promise<void> {
  const beganMs = clockMs();
  for (const pid of living()) sendSignal(pid, 'SIGTERM');
  for (let left = living(); left.length > 0; left = living()) {
    const tookMs = clockMs() - beganMs;
    if (tookMs > GIVE_UP_AFTER_MS) {
      const what = `${plural(left.length, 'process')} of the task (${left.join(', ')})`;
      return log.warn(`${what} cannot be ended, not even by SIGKILL`);
    }
    if (tookMs > KILL_AFTER_MS) for (const pid of left) sendSignal(pid, 'SIGKILL');
    await sleep(LOOK_EVERY_MS);
  }
}

type Member = readonly [pid: number, stat: ProcessStat];

function membersOf(group: number | undefined, table: ReadonlyMap<number, ProcessStat>): readonly Member[] {
  if (group === undefined) return [];
  return [...table].filter(([pid, stat]) => (pid === group || stat.group === group) && !isZombie(stat));
}

function identityOf([pid, { startTicks }]: Member): string {
  return `${pid} ${startTicks}`;
}
