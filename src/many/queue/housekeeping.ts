// What a worker of a queue does beside its tasks, once a second: finds out what is over, takes over what dead workers held, tells
// what is to be told, and sees whether it is drained or has nothing to do.
import { setTimeout as sleep } from 'node:timers/promises';
import { noteOwn } from '../../launch/own-children.ts';
import type { Log } from '../../log/log.ts';
import { reasonOf } from '../../model/errors.ts';
import { QUEUE_FORMAT, type Submission } from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import { notify } from '../../notify/notify.ts';
import { BrokerAway } from '../broker.ts';
import { storedState } from '../stored-state.ts';
import type { Worker } from '../work.ts';
import type { SharedBroker, TakenNotice } from './broker.ts';

export interface HousekeepingOptions {
  readonly broker: SharedBroker;
  readonly worker: Pick<Worker, 'board' | 'leases' | 'log' | 'ownChildren'> & {
    readonly runner: Pick<Worker['runner'], 'isIdle' | 'end'>;
  };
  /** Of the commands that tell somebody. */
  readonly env: NodeJS.ProcessEnv;
  /** Ends the worker when there was nothing to do for so long; undefined: it waits for ever. */
  readonly idleTimeoutMs: number | undefined;
  /** It prepares for tasks that it has not taken yet, or a person keeps it from them. */
  readonly isKept: () => boolean;
}

const EVERY_MS = 1000;
/** One that is not over is looked at again: its listing costs a request for each 1,000 records. */
const OVER_AGAIN_MS = 60_000;

/** Until `signal` aborts. Never rejects. */
export async function keepHouse(options: HousekeepingOptions, signal: AbortSignal): Promise<void> {
  const { idleTimeoutMs = Infinity, isKept, worker } = options;
  const { board, runner, log } = worker;
  const over = new OverChecks(options.broker, log, signal);
  /** Submissions whose first failure was told. */
  const failures = new Set<string>();
  let busyMs = clockMs();
  while (!signal.aborted) {
    try {
      await lookOnce(options, over, failures);
    } catch (error) {
      // That it is away the connection says.
      if (!(error instanceof BrokerAway)) log.warn(`the queue cannot be looked at: ${reasonOf(error)}`);
    }
    const nowMs = clockMs();
    const isBusy = !runner.isIdle || isKept() || board.inTurn().length > 0;
    if (isBusy || over.owes(board.inState('empty'))) busyMs = nowMs;
    if (nowMs - busyMs >= idleTimeoutMs) {
      log.info('nothing was left to do for the time of --idle-timeout: this worker ends');
      runner.end();
    }
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  await over.settled();
}

async function lookOnce(
  options: HousekeepingOptions,
  over: OverChecks,
  failures: Set<string>,
): Promise<void> {
  const { broker, worker } = options;
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
    log.info('this worker is drained: it takes nothing more, and ends with its last task');
    runner.end();
  }
  await board.tell((name, why) => broker.tellUnable(name, why));
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
      started: (child) => noteOwn(child, ownChildren),
    });
    if (why !== undefined) log.warn(`--notify of ${name} did not work: ${why}`);
  }
  await told();
}

/** Asks the store about each empty submission, one at a time, and not again at once. */
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

  /** These are all that are empty now. */
  check(empty: readonly Submission[]): void {
    const names = new Set(empty.map(({ name }) => name));
    // What was not empty in between has done something.
    for (const name of this.#againMs.keys()) if (!names.has(name)) this.#againMs.delete(name);
    const due = empty.find(({ name }) => clockMs() >= (this.#againMs.get(name) ?? 0));
    if (due !== undefined && this.#underWay === undefined) this.#ask(due);
  }

  /** Of one of these it is not known yet whether it is over: if all workers ended now, nobody would ever say so. */
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
 * Nothing of this submission waits, runs or has failed: is it over? Only the store knows. What is not done there, and gives
 * no sign of life, Redis has lost: it goes into the queue again.
 */
export async function closeIfOver(
  submission: Submission,
  broker: Pick<SharedBroker, 'add' | 'put' | 'tell'>,
  { log, signal }: { readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  const { name, runId, jobsHoldTask, store, taskName, indices } = submission;
  // Which of an index's records are of this run id, only the run itself looks at: the queue is believed.
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
