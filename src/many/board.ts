// What the queue holds, as this worker saw it last, and what it may take of it. It looks once a second, and at once after
// something of ours has changed it. Memory, but for that one question.
import type { Log } from '../log/log.ts';
import {
  inTurn,
  lackingHere,
  type Seen,
  stateOfSubmission,
  type SubmissionState,
  type WorkerAbility,
} from '../model/many/choose.ts';
import type { Submission } from '../model/many/submission.ts';
import { plural } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import type { Listed, WorkerBroker } from './broker.ts';

export interface BoardOptions {
  readonly broker: Pick<WorkerBroker, 'list'>;
  readonly ability: WorkerAbility;
  /** Of this machine beside its abilities; asked only of what it is able to do. Begins with --prepare. */
  readonly readiness: (submission: Submission) => Readiness;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

export type Readiness =
  | { readonly kind: 'ready' }
  | { readonly kind: 'under-way' }
  | { readonly kind: 'never'; readonly why: string; readonly hint?: string };

const LOOK_EVERY_MS = 1000;

export class Board {
  readonly #options: BoardOptions;
  #seen: readonly Seen[] = [];
  #lookedMs = -Infinity;
  #looking: Promise<void> | undefined;
  /** Nothing was left in these since they were seen. */
  readonly #emptied = new Set<string>();
  /** What has been said, said once. */
  readonly #said = new Set<string>();
  /** Said here, and not yet to those who look at the queue. */
  readonly #untold: { readonly name: string; readonly why: string }[] = [];

  constructor(options: BoardOptions) {
    this.#options = options;
  }

  /** Looks, unless it has looked within the last second and nothing has changed since. */
  async lookIfDue(): Promise<void> {
    const nowMs = clockMs();
    if (nowMs - this.#lookedMs >= LOOK_EVERY_MS) {
      this.#lookedMs = nowMs;
      this.#looking = this.#look();
    }
    await this.#looking;
  }

  async #look(): Promise<void> {
    const listed = await this.#options.broker.list();
    for (const one of listed) if (one.kind === 'unreadable') this.#sayUnreadable(one);
    const halted = new Set(this.inState('halted').map(({ name }) => name));
    const isFirst = this.#seen.length === 0;
    this.#seen = listed.filter((one) => one.kind === 'submission');
    this.#emptied.clear();
    for (const one of this.#seen) if (!isFirst && !halted.has(one.submission.name)) this.#sayIfHalted(one);
  }

  /** One of our tasks has changed what the queue holds: the next look is due. */
  expire(): void {
    this.#lookedMs = -Infinity;
  }

  /** Shows those who look at the queue what is left to other workers, and why. */
  async tell(tellUnable: (submission: string, why: string) => Promise<void>): Promise<void> {
    for (let one = this.#untold[0]; one !== undefined; one = this.#untold[0]) {
      await tellUnable(one.name, one.why);
      this.#untold.shift();
    }
  }

  /** Those to take from, the first first. */
  inTurn(): readonly Submission[] {
    return inTurn(this.#seen).filter((one) => !this.#emptied.has(one.name) && this.#mayRun(one));
  }

  /** Nothing waits in it any more. */
  emptied(name: string): void {
    this.#emptied.add(name);
  }

  inState(kind: SubmissionState['kind']): readonly Submission[] {
    return this.#seen
      .filter((one) => stateOfSubmission(one, this.#seen).kind === kind)
      .map(({ submission }) => submission);
  }

  /** Their tasks are to end now. */
  toBeEnded(): ReadonlySet<string> {
    const ended = this.#seen.filter((one) => {
      const state = stateOfSubmission(one, this.#seen);
      return state.kind === 'cancelled' || (state.kind === 'halted' && state.how === 'now');
    });
    return new Set(ended.map(({ submission }) => submission.name));
  }

  /** A worker may hold something of these, now or later. */
  alive(): ReadonlySet<string> {
    const alive = this.#seen.filter(
      ({ submission: { overMs, cancelledMs }, counts }) =>
        overMs === undefined && (cancelledMs === undefined || counts.running > 0),
    );
    return new Set(alive.map(({ submission }) => submission.name));
  }

  all(): readonly Seen[] {
    return this.#seen;
  }

  isCancelled(name: string): boolean {
    return this.inState('cancelled').some((one) => one.name === name);
  }

  #mayRun(submission: Submission): boolean {
    const lacking = lackingHere(submission, this.#options.ability);
    if (lacking.length > 0) {
      // Which capabilities workers have, everybody sees.
      this.#leave(submission, `it needs ${lacking.join(', ')}, and this worker has not (--has)`);
      return false;
    }
    const readiness = this.#readinessOf(submission);
    if (readiness.kind === 'never' && this.#leave(submission, readiness.why, readiness.hint))
      this.#untold.push({ name: submission.name, why: readiness.why });
    return readiness.kind === 'ready';
  }

  #readinessOf(submission: Submission): Readiness {
    const { ability, readiness } = this.#options;
    const why = ability.whyNever(submission);
    return why === undefined ? readiness(submission) : { kind: 'never', why };
  }

  /** False if that was said already. */
  #leave({ name, submittedMs }: Submission, why: string, hint?: string): boolean {
    return this.#sayOnce(`${name} is left to other workers: ${why}`, { hint, key: submittedMs });
  }

  #sayUnreadable({ name, why }: Extract<Listed, { kind: 'unreadable' }>): void {
    const hint = 'start a worker of the capture that submitted it';
    this.#sayOnce(`${name} is left to other workers: ${why}`, { hint });
  }

  #sayIfHalted(seen: Seen): void {
    const state = stateOfSubmission(seen, this.#seen);
    if (state.kind !== 'halted') return;
    const { name } = seen.submission;
    const rest = state.how === 'now' ? ', and those that run are told to end' : '; those that run go on';
    this.#options.log.warn(
      `${name === '' ? '' : `${name}: `}${plural(seen.counts.failed, 'task')} failed: --halt says that no more are started${rest}`,
    );
  }

  /** False if it was said already; of a later submission of the same name, `key`, it is said again. */
  #sayOnce(
    text: string,
    { hint, key = 0 }: { readonly hint?: string | undefined; readonly key?: number },
  ): boolean {
    const what = `${key} ${text}`;
    if (this.#said.has(what)) return false;
    this.#said.add(what);
    // Where there is something to be done about it.
    this.#options.log[hint === undefined ? 'info' : 'warn'](text, { hint });
    return true;
  }
}
