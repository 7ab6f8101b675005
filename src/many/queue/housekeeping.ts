// What a worker of a queue does once a second besides its tasks: it finds submissions that are over, takes over jobs of
// dead workers, sends notices, and checks whether it is drained or idle.
import { setTimeout as sleep } from 'node:timers/promises';
import { noteOwnChild } from '../../launch/own-children.ts';
import type { Log } from '../../log/log.ts';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { QUEUE_FORMAT, type Submission } from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import { notify } from '../../notify/notify.ts';
import { awayText, BrokerAway } from '../broker.ts';
import { storedState } from '../stored-state.ts';
import type { Worker } from '../work.ts';
import type { SharedBroker, TakenNotice } from './broker.ts';

export interface HousekeepingOptions {
  readonly broker: SharedBroker;
  readonly worker: Pick<Worker, 'board' | 'leases' | 'log' | 'ownChildren'> & {
    readonly runner: Pick<Worker['runner'], 'isIdle' | 'running' | 'end'>;
  };
  /** The environment of the --notify commands. */
  readonly env: NodeJS.ProcessEnv;
  /** The worker ends when it was idle for this time, or could not see for this time whether it is; undefined: never. */
  readonly idleTimeoutMs: number | undefined;
  /** The worker is not idle: it prepares for tasks that it has not taken yet, or a user has paused it. */
  readonly isKept: () => boolean;
}

const EVERY_MS = 1000;
/**
 * If an empty submission is not over, this is the wait until the next check. The listing costs a request for each 1,000
 * records.
 */
const OVER_AGAIN_MS = 60_000;

/**
 * Runs until `signal` aborts. Never rejects. Resolves to the error, status 69, if the worker ended because it could not
 * see its queue.
 */
export async function keepHouse(
  options: HousekeepingOptions,
  signal: AbortSignal,
): Promise<CaptureError | undefined> {
  const { idleTimeoutMs = Infinity, isKept, worker } = options;
  const { runner, log } = worker;
  const over = new OverChecks(options.broker, log, signal);
  /** Submissions whose first failure was reported. */
  const failures = new Set<string>();
  const idle = new IdleTime(idleTimeoutMs);
  let blind: CaptureError | undefined;
  while (!signal.aborted) {
    const look = await lookOnce(options, over, failures).then(
      (isBusy) => ({ isBusy }),
      (error: unknown) => ({ error }),
    );
    if ('isBusy' in look) {
      if (idle.seen(look.isBusy)) {
        log.info('nothing was left to do for the time of --idle-timeout: this worker ends');
        runner.end();
      }
    } else {
      // A BrokerAway was already logged.
      if (!(look.error instanceof BrokerAway) && !idle.isBlind)
        log.warn(`the queue cannot be looked at: ${reasonOf(look.error)}`);
      // Not runner.isIdle: that waits for looks, too.
      if (idle.unseen(runner.running().length > 0 || isKept())) {
        blind ??= endedBlind(look.error);
        runner.end();
      }
    }
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  await over.settled();
  return blind;
}

/** Whether a task waits again soon that this worker can run, because its own worker died. */
async function mayReturn({ broker, worker: { board } }: HousekeepingOptions): Promise<boolean> {
  for (const submission of board.underWay())
    if ((await broker.hasLost(submission.name)) && board.mayRun(submission)) return true;
  return false;
}

function endedBlind(error: unknown): CaptureError {
  const why = error instanceof BrokerAway ? awayText(error) : reasonOf(error);
  const message = `this worker ends, because it could not see for the time of --idle-timeout whether tasks wait: ${why}`;
  const hint = error instanceof BrokerAway ? error.hint : undefined;
  return new CaptureError(EXIT.unavailable, message, {
    hint: hint ?? 'start it again when the queue can be used; without --idle-timeout a worker waits for that',
    cause: error,
  });
}

/** Time with nothing to do counts only while the queue can be seen. Time without a view of it counts separately. */
class IdleTime {
  readonly #timeoutMs: number;
  #idleSinceMs: number | undefined;
  #blindSinceMs: number | undefined;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  get isBlind(): boolean {
    return this.#blindSinceMs !== undefined;
  }

  /** A look has succeeded. Returns true if looks have found nothing to do for the whole time: two at least. */
  seen(isBusy: boolean): boolean {
    const nowMs = clockMs();
    if (isBusy || this.isBlind) this.#idleSinceMs = undefined;
    this.#blindSinceMs = undefined;
    if (isBusy) return false;
    this.#idleSinceMs ??= nowMs;
    return nowMs - this.#idleSinceMs >= this.#timeoutMs;
  }

  /** A look has failed. Returns true if all failed for the whole time, and nothing ran. */
  unseen(isBusy: boolean): boolean {
    const nowMs = clockMs();
    if (isBusy) this.#blindSinceMs = nowMs;
    this.#blindSinceMs ??= nowMs;
    return nowMs - this.#blindSinceMs >= this.#timeoutMs;
  }
}

/** Resolves to whether this worker has, or may soon have, something to do. */
async function lookOnce(
  options: HousekeepingOptions,
  over: OverChecks,
  failures: Set<string>,
): Promise<boolean> {
  const { broker, worker, idleTimeoutMs, isKept } = options;
  const { board, leases, runner, log } = worker;
  await board.lookIfDue();
  over.check(board.inState('empty'));
  await broker.watch(new Set([...board.alive(), ...leases.submissions()]));
  for (const { submission, counts } of board.all()) {
    const { name, submittedMs, notify: target } = submission;
    const key = `${submittedMs} ${name}`;
    if (target === undefined || counts.failed === 0 || failures.has(key)) continue;
    await broker.tell({ submission: name, event: 'failed' });
    failures.add(key);
  }
  const notice = await broker.takeNotice();
  if (notice !== undefined) await tell(notice, options);
  if (await broker.isDrained()) {
    log.info('this worker is drained: it takes no more tasks, and ends after its last one');
    runner.end();
  }
  await board.tell((name, why) => broker.tellUnable(name, why));
  if (!runner.isIdle || isKept() || board.inTurn().length > 0 || over.owes(board.inState('empty')))
    return true;
  return idleTimeoutMs !== undefined && mayReturn(options);
}

async function tell(
  { notice, told }: TakenNotice,
  { worker: { board, log, ownChildren }, env }: HousekeepingOptions,
): Promise<void> {
  const { submission, counts } = board.all().find((one) => one.submission.name === notice.submission) ?? {};
  if (submission?.notify !== undefined && counts !== undefined) {
    const { name, taskName, size, store, notify: target } = submission;
    const isDone = notice.event === 'all-done';
    const text = isDone
      ? `${name}: all ${size} are done`
      : `${name}: ${counts.failed} of ${size} failed so far`;
    const about = { event: notice.event, text, task: taskName, status: isDone ? 0 : 1, store: store.url };
    const news = { ...about, counts: { ...counts } };
    const why = await notify(target, news, new AbortController().signal, {
      env,
      started: (child) => noteOwnChild(child, ownChildren),
    });
    if (why !== undefined) log.warn(`--notify of ${name} did not work: ${why}`);
  }
  await told();
}

/**
 * Asks the store about each empty submission, one at a time, with a pause between two checks of the same submission.
 */
class OverChecks {
  readonly #broker: Pick<SharedBroker, 'add' | 'put' | 'tell'>;
  readonly #log: Log;
  readonly #signal: AbortSignal;
  readonly #againMs = new Map<string, number>();
  #underWay: Promise<void> | undefined;

  constructor(broker: Pick<SharedBroker, 'add' | 'put' | 'tell'>, log: Log, signal: AbortSignal) {
    this.#broker = broker;
    this.#log = log;
    this.#signal = signal;
  }

  /** `empty`: all submissions that are empty now. */
  check(empty: readonly Submission[]): void {
    const names = new Set(empty.map(({ name }) => name));
    // Jobs of a submission that left the list may have run, so its next check is due at once.
    for (const name of this.#againMs.keys()) if (!names.has(name)) this.#againMs.delete(name);
    const due = empty.find(({ name }) => clockMs() >= (this.#againMs.get(name) ?? 0));
    if (due !== undefined && this.#underWay === undefined) this.#ask(due);
  }

  /** For one of these it is not known yet whether it is over. If all workers ended now, nobody would ever report it. */
  owes(empty: readonly Submission[]): boolean {
    return this.#underWay !== undefined || empty.some(({ name }) => !this.#againMs.has(name));
  }

  #ask(submission: Submission): void {
    const { name } = submission;
    this.#againMs.set(name, clockMs() + OVER_AGAIN_MS);
    this.#underWay = closeIfOver(submission, this.#broker, { log: this.#log, signal: this.#signal })
      .catch((error: unknown) => {
        if (this.#signal.aborted || error instanceof BrokerAway) return;
        this.#log.warn(`whether ${name} is done cannot be seen: ${reasonOf(error)}`);
      })
      .finally(() => {
        this.#underWay = undefined;
      });
  }

  async settled(): Promise<void> {
    await this.#underWay;
  }
}

/**
 * Called if no job of this submission waits, runs or has failed. Only the store knows whether the submission is over.
 * If an index is not done there and has no heartbeat, Redis has lost its job, so it is queued again.
 */
export async function closeIfOver(
  submission: Submission,
  broker: Pick<SharedBroker, 'add' | 'put' | 'tell'>,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const { name, runId, jobsHoldTask, store, taskName, indices } = submission;
  // Only the run itself checks which records of an index belong to this run id. So the queue is trusted.
  if (runId === undefined) {
    const { left, alive } = await storedState({ settings: store, taskName, indices }, log, signal);
    const lost = left.filter((index) => !alive.has(index));
    if (lost.length > 0) {
      const what = `${name}: ${lost.length} of its tasks are neither done nor in the queue`;
      if (jobsHoldTask) return log.warn(what, { hint: 'give the same capture submit again, with --again' });
      log.warn(`${what}: they are put there again`);
      const jobs = [...lost].map((index) => ({ format: QUEUE_FORMAT, index }) as const);
      return broker.add(submission, jobs, signal);
    }
    if (alive.size > 0) return;
  }
  await broker.put({ ...submission, overMs: clockMs() });
  if (submission.notify !== undefined) await broker.tell({ submission: name, event: 'all-done' });
  log.info(`${name}: all are done`);
}
