// This worker's latest view of the queue, and what the worker may take from it. It polls the queue once a second, and
// at once after one of our own tasks has changed it. All state is in memory, except for the listing itself.
import type { Log } from '../log/log.ts';
import {
  inTurn,
  lackingHere,
  type SeenSubmission,
  stateOfSubmission,
  type SubmissionState,
  type WorkerAbility,
} from '../model/many/choose.ts';
import type { StopCause } from '../model/format/stop-cause.ts';
import type { Submission } from '../model/many/submission.ts';
import { plural } from '../model/units.ts';
import { clockMs } from '../native/clock.ts';
import type { Listed, WorkerBroker } from './broker.ts';

const CANCELLED: StopCause = { why: 'cancelled', reason: 'its submission was cancelled' };
const HALTED: StopCause = { why: 'halted', reason: 'too many tasks failed (--halt)' };

export interface BoardOptions {
  readonly broker: Pick<WorkerBroker, 'list'>;
  readonly ability: WorkerAbility;
  /**
   * Whether this machine is ready for a submission (--prepare, directory). Called only if the machine has the
   * capabilities; the call starts --prepare.
   */
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
  #seen: readonly SeenSubmission[] = [];
  #lookedMs = -Infinity;
  #looking: Promise<void> | undefined;
  /** Submissions that turned out to be empty after the last look. */
  readonly #emptied = new Set<string>();
  /** Messages that were logged already; each is logged once. */
  readonly #said = new Set<string>();
  /** Logged here, but not yet shown to those who look at the queue. */
  readonly #untold: { readonly name: string; readonly why: string }[] = [];

  constructor(options: BoardOptions) {
    this.#options = options;
  }

  /** Looks at the queue, unless the last look is less than a second old and nothing has changed since. */
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

  /** One of our tasks has changed the queue, so the next look is due. */
  expire(): void {
    this.#lookedMs = -Infinity;
  }

  /** Shows to those who look at the queue what this worker leaves to others, and why. */
  async tell(tellUnable: (submission: string, why: string) => Promise<void>): Promise<void> {
    for (let one = this.#untold[0]; one !== undefined; one = this.#untold[0]) {
      await tellUnable(one.name, one.why);
      this.#untold.shift();
    }
  }

  /** The submissions to take from, in their order. */
  inTurn(): readonly Submission[] {
    return inTurn(this.#seen).filter((one) => !this.#emptied.has(one.name) && this.mayRun(one));
  }

  /** Nothing waits in this submission any more. */
  emptied(name: string): void {
    this.#emptied.add(name);
  }

  inState(kind: SubmissionState['kind']): readonly Submission[] {
    return this.#seen
      .filter((one) => stateOfSubmission(one, this.#seen).kind === kind)
      .map(({ submission }) => submission);
  }

  /** Submissions whose tasks must end now, and why. */
  toBeEnded(): ReadonlyMap<string, StopCause> {
    const ended = new Map<string, StopCause>();
    for (const one of this.#seen) {
      const state = stateOfSubmission(one, this.#seen);
      if (state.kind === 'cancelled') ended.set(one.submission.name, CANCELLED);
      if (state.kind === 'halted' && state.how === 'now') ended.set(one.submission.name, HALTED);
    }
    return ended;
  }

  /** Submissions whose jobs this worker may hold, now or later. */
  alive(): ReadonlySet<string> {
    const alive = this.#seen.filter(
      ({ submission: { overMs, cancelledMs }, counts }) =>
        overMs === undefined && (cancelledMs === undefined || counts.running > 0),
    );
    return new Set(alive.map(({ submission }) => submission.name));
  }

  /** Some of their tasks run. */
  underWay(): readonly Submission[] {
    const running = this.#seen.filter(
      ({ submission, counts }) => submission.cancelledMs === undefined && counts.running > 0,
    );
    return running.map(({ submission }) => submission);
  }

  all(): readonly SeenSubmission[] {
    return this.#seen;
  }

  isCancelled(name: string): boolean {
    return this.inState('cancelled').some((one) => one.name === name);
  }

  /** Whether this machine can run its tasks. If they need --prepare, that begins. */
  mayRun(submission: Submission): boolean {
    const lacking = lackingHere(submission, this.#options.ability);
    if (lacking.length > 0) {
      // Everybody sees the capabilities of all workers, so this is not shown again.
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

  /** Returns false if that was already said. */
  #leave({ name, submittedMs }: Submission, why: string, hint?: string): boolean {
    return this.#sayOnce(`${name} is left to other workers: ${why}`, { hint, key: submittedMs });
  }

  #sayUnreadable({
    name,
    why,
    hint = 'start a worker of the version of capture that submitted it',
  }: Extract<Listed, { kind: 'unreadable' }>): void {
    this.#sayOnce(`${name} is left to other workers: ${why}`, { hint });
  }

  #sayIfHalted(seen: SeenSubmission): void {
    const state = stateOfSubmission(seen, this.#seen);
    if (state.kind !== 'halted') return;
    const { name } = seen.submission;
    const rest = state.how === 'now' ? ', and those that run are told to end' : '; those that run go on';
    this.#options.log.warn(
      `${name === '' ? '' : `${name}: `}${plural(seen.counts.failed, 'task')} failed: --halt says that no more are started${rest}`,
    );
  }

  /**
   * Returns false if that was already said. A later submission with the same name has another `key`, so it is said
   * again.
   */
  #sayOnce(
    text: string,
    { hint, key = 0 }: { readonly hint?: string | undefined; readonly key?: number },
  ): boolean {
    const what = `${key} ${text}`;
    if (this.#said.has(what)) return false;
    this.#said.add(what);
    // It is a warning if the user can do something about it.
    this.#options.log[hint === undefined ? 'info' : 'warn'](text, { hint });
    return true;
  }
}
