// What a worker does beside its tasks, once a second: looks at the queue, ends what was cancelled, finds out what is over,
// prepares, tells what is to be told, and sees whether it is drained.
import { setTimeout as sleep } from 'node:timers/promises';
import { noteOwn } from '../../launch/own-children.ts';
import type { Log } from '../../log/log.ts';
import { reasonOf } from '../../model/errors.ts';
import type { Submission } from '../../model/many/submission.ts';
import { clockMs } from '../../native/clock.ts';
import { notify } from '../../notify/notify.ts';
import type { Board } from './board.ts';
import { BrokerAway, type TakenNotice, type WorkerBroker } from './broker.ts';
import type { Held } from './held.ts';
import { closeIfOver } from './over.ts';
import type { QueueSource } from './source.ts';

export interface DutyOptions {
  readonly broker: WorkerBroker;
  readonly board: Board;
  readonly held: Held;
  readonly source: QueueSource;
  readonly log: Log;
  /** Of the commands that tell somebody. */
  readonly env: NodeJS.ProcessEnv;
  /** Running children that we started ourselves; kept up to date here. */
  readonly ownChildren: Set<number>;
  /** After a look: there may be something to start. */
  readonly looked: () => void;
  /** Ends all of it when there was nothing to do for so long; undefined: it waits for ever. */
  readonly idleTimeoutMs: number | undefined;
  /** It prepares for tasks that it has not taken yet, or a person keeps it from them. */
  readonly isKept: () => boolean;
}

const LOOK_EVERY_MS = 1000;
/** One that is not over is looked at again: its listing costs a request for each 1,000 records. */
const OVER_AGAIN_MS = 60_000;

/** Until `signal` aborts. Never rejects. */
export async function doDuties(options: DutyOptions, signal: AbortSignal): Promise<void> {
  const { log, source, board } = options;
  const over = new Overs(options, signal);
  let busyMs = clockMs();
  while (!signal.aborted) {
    try {
      await lookOnce(options, over);
    } catch (error) {
      // That it is away the connection says.
      if (!(error instanceof BrokerAway)) log.warn(`the queue cannot be looked at: ${reasonOf(error)}`);
    }
    const nowMs = clockMs();
    const isBusy = !source.isIdle || options.isKept() || board.inTurn().length > 0;
    if (isBusy || over.owes(board.inState('empty'))) busyMs = nowMs;
    if (options.idleTimeoutMs !== undefined && nowMs - busyMs >= options.idleTimeoutMs) {
      log.info('nothing was left to do for the time of --idle-timeout: this worker ends');
      source.end();
    }
    options.looked();
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
  await over.settled();
}

async function lookOnce(options: DutyOptions, over: Overs): Promise<void> {
  const { broker, board, held, source, log } = options;
  await board.look();
  const ended = board.toBeEnded();
  if (ended.size > 0) source.push('again', ended);
  over.ask(board.inState('empty'));
  await broker.watch(new Set([...board.alive(), ...held.submissions()]));
  const notice = await broker.takeNotice();
  if (notice !== undefined) await tell(notice, options);
  if (await broker.isDrained()) {
    log.info('this worker is drained: it takes nothing more, and ends with its last task');
    source.end();
  }
  await board.tell();
}

async function tell(
  { notice, told }: TakenNotice,
  { board, log, env, ownChildren }: Pick<DutyOptions, 'board' | 'log' | 'env' | 'ownChildren'>,
): Promise<void> {
  const { submission, counts } = board.find(notice.submission) ?? {};
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
class Overs {
  readonly #options: Pick<DutyOptions, 'broker' | 'log'>;
  readonly #signal: AbortSignal;
  readonly #againMs = new Map<string, number>();
  #underWay: Promise<void> | undefined;

  constructor(options: Pick<DutyOptions, 'broker' | 'log'>, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  /** These are all that are empty now. */
  ask(empty: readonly Submission[]): void {
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
    const { broker, log } = this.#options;
    this.#underWay = closeIfOver(submission, { broker, log, signal: this.#signal })
      .then(() => undefined)
      .catch((error: unknown) => {
        if (this.#signal.aborted || error instanceof BrokerAway) return;
        log.warn(`whether ${name} is done cannot be seen: ${reasonOf(error)}`);
      })
      .finally(() => {
        this.#underWay = undefined;
      });
  }

  async settled(): Promise<void> {
    await this.#underWay;
  }
}
