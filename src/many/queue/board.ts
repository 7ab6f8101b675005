// What the queue holds, as this worker saw it last, and what it may take of it. It asks the queue once a second, while
// there is room or something to obey. Memory, but for that one question.
import type { Log } from '../../log/log.ts';
import {
  inTurn,
  lackingHere,
  type Seen,
  stateOfSubmission,
  type SubmissionState,
  type WorkerAbility,
} from '../../model/many/choose.ts';
import type { Submission } from '../../model/many/submission.ts';
import type { Listed, WorkerBroker } from './broker.ts';

export interface BoardOptions {
  readonly broker: Pick<WorkerBroker, 'list' | 'tellUnable'>;
  readonly ability: WorkerAbility;
  /** Of this machine beside its abilities; asked only of what it is able to do. Begins with --prepare. */
  readonly readiness: (submission: Submission) => Readiness;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

export type Readiness =
  | { readonly kind: 'ready' }
  | { readonly kind: 'under-way' }
  | { readonly kind: 'never'; readonly why: string; readonly hint?: string };

export class Board {
  readonly #options: BoardOptions;
  #seen: readonly Seen[] = [];
  /** Nothing was left in these since they were seen. */
  readonly #emptied = new Set<string>();
  /** What has been said, said once. */
  readonly #said = new Set<string>();
  /** Said here, and not yet to those who look at the queue. */
  readonly #untold: { readonly name: string; readonly why: string }[] = [];

  constructor(options: BoardOptions) {
    this.#options = options;
  }

  async look(): Promise<void> {
    const listed = await this.#options.broker.list();
    for (const one of listed) if (one.kind === 'unreadable') this.#sayUnreadable(one);
    this.#seen = listed.filter((one) => one.kind === 'submission');
    this.#emptied.clear();
  }

  /** Shows those who look at the queue what is left to other workers, and why. */
  async tell(): Promise<void> {
    for (let one = this.#untold[0]; one !== undefined; one = this.#untold[0]) {
      await this.#options.broker.tellUnable(one.name, one.why);
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

  /** Whose tasks are to end now. */
  toBeEnded(): ReadonlySet<string> {
    const ended = this.#seen.filter((one) => {
      const state = stateOfSubmission(one, this.#seen);
      return state.kind === 'cancelled' || (state.kind === 'halted' && state.how === 'now');
    });
    return new Set(ended.map(({ submission }) => submission.name));
  }

  /** Of which a worker may hold something, now or later. */
  alive(): ReadonlySet<string> {
    const alive = this.#seen.filter(
      ({ submission: { overMs, cancelledMs }, counts }) =>
        overMs === undefined && (cancelledMs === undefined || counts.running > 0),
    );
    return new Set(alive.map(({ submission }) => submission.name));
  }

  find(name: string): Seen | undefined {
    return this.#seen.find(({ submission }) => submission.name === name);
  }

  isCancelled(name: string): boolean {
    return this.find(name)?.submission.cancelledMs !== undefined;
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
