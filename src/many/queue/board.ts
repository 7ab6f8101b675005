// What the queue holds, as this worker saw it last, and what it may take of it. It asks the queue once a second, while
// there is room or something to obey. Memory, but for that one question.
import type { Log } from '../../log/log.ts';
import {
  inTurn,
  type Seen,
  stateOfSubmission,
  type SubmissionState,
  whyNotHere,
  type WorkerAbility,
} from '../../model/many/choose.ts';
import type { Submission } from '../../model/many/submission.ts';
import type { Listed, WorkerBroker } from './broker.ts';

export interface BoardOptions {
  readonly broker: Pick<WorkerBroker, 'list'>;
  readonly ability: WorkerAbility;
  /** Of this machine beside its abilities: a directory that is not here. Undefined: it may run here. */
  readonly whyNotNow: (submission: Submission) => string | undefined;
  /** Its --prepare has ended; begins with it if not. */
  readonly isPrepared: (submission: Submission) => boolean;
  readonly log: Pick<Log, 'info' | 'warn'>;
}

export class Board {
  readonly #options: BoardOptions;
  #seen: readonly Seen[] = [];
  /** Nothing was left in these since they were seen. */
  readonly #emptied = new Set<string>();
  /** What has been said, said once. */
  readonly #said = new Set<string>();

  constructor(options: BoardOptions) {
    this.#options = options;
  }

  async look(): Promise<void> {
    const listed = await this.#options.broker.list();
    for (const one of listed) if (one.kind === 'unreadable') this.#sayUnreadable(one);
    this.#seen = listed.filter((one) => one.kind === 'submission');
    this.#emptied.clear();
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
    const { ability, whyNotNow, isPrepared } = this.#options;
    const why = whyNotHere(submission, ability) ?? whyNotNow(submission);
    if (why !== undefined) this.#sayOnce(`${submission.name} is left to other workers: ${why}`);
    return why === undefined && isPrepared(submission);
  }

  #sayUnreadable({ name, why }: Extract<Listed, { kind: 'unreadable' }>): void {
    this.#sayOnce(
      `${name} is left to other workers: ${why}`,
      'start a worker of the capture that submitted it',
    );
  }

  #sayOnce(text: string, hint?: string): void {
    if (this.#said.has(text)) return;
    this.#said.add(text);
    this.#options.log.info(text, { hint });
  }
}
