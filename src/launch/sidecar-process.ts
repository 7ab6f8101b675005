// Keeps one sidecar running: starts it, or connects to the one that the tasks of this machine share, exchanges
// messages, and replaces it if it dies. So neither its crash nor its absence touches the task. It never decides about
// the task.
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { FromSidecar, SidecarReport, OutputsFrom, ToSidecar } from '../model/format/messages.ts';
import type { Settings } from '../model/format/settings.ts';
import { formatMs } from '../model/units.ts';
import { type BackOff, newDeferred, pauseAfter } from '../model/waiting.ts';
import { clockMs, clockOffsetMs } from '../native/clock.ts';
import { STARTS_WITHIN_MS } from './heartbeat.ts';
import { withoutShim } from './inherited.ts';
import { type SidecarGone, linkToChild, linkToShared, type SidecarLink } from './sidecar-link.ts';
import { type StartedSidecar, startSidecar } from './sidecar-start.ts';

const RESTART: BackOff = { firstMs: 100, mostMs: 10_000 };
/** This many deaths within this time are no accident: then the sidecar is not replaced any more. */
const DEATHS = 5;
const DEATHS_WITHIN_MS = 10 * 60_000;
/** A shared sidecar may die because of another task. After this many deaths the launcher starts its own. */
const SHARED_DEATHS = 3;

export type SidecarOpening = Extract<FromSidecar, { readonly kind: 'ready' | 'done-already' }>;
/** `lost`: it died too often, and nobody records any more. */
export type SidecarEnding = Extract<FromSidecar, { readonly kind: 'ended' }> | { readonly kind: 'lost' };

export interface SidecarOptions {
  /** The sidecar's module. */
  readonly entry: string;
  /** A sidecar that was started earlier with that module. */
  readonly started: StartedSidecar | undefined;
  /** The socket of the sidecar that the tasks of this machine share. */
  readonly shared: string | undefined;
  readonly settings: Settings;
  readonly outputsFrom: OutputsFrom | undefined;
  /** As in the message `start`. */
  readonly launcherFaults: () => number | undefined;
  /** Running children that the launcher itself started; updated here. */
  readonly ownChildren: Set<number>;
}

interface SidecarEvents {
  readonly heard: (news: SidecarReport) => void;
  readonly warn: (line: string, hint?: string) => void;
  /** It has said nothing for a while after its start. */
  readonly slow: (line: string, hint: string) => void;
}

export class SidecarProcess {
  readonly #options: SidecarOptions;
  readonly #opened = newDeferred<SidecarOpening>();
  readonly #ended = newDeferred<SidecarEnding>();
  /** The newest message of each kind that a replacement must receive again. */
  readonly #told = new Map<ToSidecar['kind'], ToSidecar>();
  readonly #deathsAtMs: number[] = [];
  #attempt: number | undefined;
  #link: SidecarLink | undefined;
  /** Undefined once the launcher has its own sidecar. */
  #shared: string | undefined;
  #restart: NodeJS.Timeout | undefined;
  #isOver = false;
  /** The sidecar that was started earlier, until it is used. */
  #waiting: StartedSidecar | undefined;

  constructor(options: SidecarOptions) {
    this.#options = options;
    this.#waiting = options.started;
    this.#shared = options.shared;
  }

  /** Rejects with the reason if the sidecar refuses, or dies before it is ready. */
  get opened(): Promise<SidecarOpening> {
    return this.#opened.promise;
  }

  get ended(): Promise<SidecarEnding> {
    return this.#ended.promise;
  }

  /** `lost` if that takes longer than `ms`. */
  async endedWithin(ms: number): Promise<SidecarEnding> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<SidecarEnding>((resolve) => {
      timer = setTimeout(() => resolve({ kind: 'lost' }), ms);
    });
    try {
      return await Promise.race([this.ended, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Undefined for a shared sidecar. */
  pid(): number | undefined {
    return this.#link?.pid;
  }

  /** Undefined before the sidecar is ready. */
  attempt(): number | undefined {
    return this.#attempt;
  }

  /** One of capture's own processes has died. */
  get hasDied(): boolean {
    return this.#deathsAtMs.length > 0;
  }

  /** Call it once; the caller closes. A replacement starts by itself. */
  start(events: SidecarEvents): void {
    let link: SidecarLink;
    try {
      link = this.#open(events);
    } catch (error) {
      return this.#replace(reasonOf(error), events); // spawn throws ENOMEM synchronously; the task must not notice
    }
    this.#link = link;
    void link.gone.then((gone) => {
      this.#link = undefined;
      if (!this.#isOver) this.#lost(gone, events);
    });
    const { settings, outputsFrom, launcherFaults } = this.#options;
    // A shared sidecar has the runner's environment.
    const env =
      this.#shared !== undefined && settings.verify !== undefined ? withoutShim(process.env) : undefined;
    link.send({
      kind: 'start',
      settings,
      attempt: this.#attempt,
      clockOffsetMs: clockOffsetMs(),
      outputsFrom,
      launcherFaults: this.#attempt === undefined ? undefined : launcherFaults(),
      env,
    });
    for (const message of this.#told.values()) link.send(message);
  }

  /** Sent now, and again to every replacement. */
  tell(message: ToSidecar): void {
    const before = this.#told.get(message.kind);
    // A `task-signalled` of the last call is kept, even if another signal follows it.
    if (!isLastCall(before) || isLastCall(message)) this.#told.set(message.kind, message);
    this.#link?.send(message);
  }

  /** Lets the sidecar exit, or ends it; resolves when it is gone. */
  async close(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#restart);
    await this.#link?.close();
  }

  #open(events: SidecarEvents): SidecarLink {
    const hear = (message: FromSidecar): void => this.#hear(message, events);
    if (this.#shared !== undefined) return linkToShared(this.#shared, hear);
    const { entry, ownChildren } = this.#options;
    const started = this.#waiting ?? startSidecar(entry);
    this.#waiting = undefined;
    const slow = (): void =>
      events.slow(
        `the sidecar has not answered yet; ${formatMs(STARTS_WITHIN_MS)} after its start it is killed`,
        'wait if the file system of the installation is slow; if not, look whether the limit of processes is reached (ulimit -u; pids.max of the cgroup)',
      );
    return linkToChild(started, { hear, slow }, ownChildren);
  }

  #lost({ how, wasThere }: SidecarGone, events: SidecarEvents): void {
    if (wasThere) return this.#replace(how, events);
    this.#shared = undefined;
    events.warn(`the sidecar of all tasks is gone (${how}): this one starts its own`);
    this.start(events);
  }

  #replace(how: string, events: SidecarEvents): void {
    // A shared sidecar may have died because of another task, and this task has not begun.
    if (this.#attempt === undefined && this.#shared === undefined) return this.#fail(diedTooEarly(how));
    const nowMs = clockMs();
    this.#deathsAtMs.push(nowMs);
    const recent = this.#deathsAtMs.filter((atMs) => nowMs - atMs < DEATHS_WITHIN_MS).length;
    if (recent >= DEATHS) {
      this.#isOver = true;
      events.warn(
        `the sidecar died ${recent} times within ${formatMs(DEATHS_WITHIN_MS)} (last: ${how}): nothing is stored any more`,
        'the task goes on; keep the work directory, and see the log for why the sidecar died',
      );
      return this.#ended.resolve({ kind: 'lost' });
    }
    if (recent >= SHARED_DEATHS) this.#shared = undefined;
    const waitMs = pauseAfter(RESTART, recent - 1);
    const goesOn = this.#attempt === undefined ? '' : 'the task goes on, ';
    events.warn(`the sidecar died (${how}); ${goesOn}a new one starts in ${formatMs(waitMs)}`);
    this.#restart = setTimeout(() => this.start(events), waitMs);
  }

  #hear(message: FromSidecar, events: SidecarEvents): void {
    switch (message.kind) {
      case 'hello':
        return;
      case 'ready':
        this.#attempt ??= message.attempt;
        return this.#opened.resolve(message);
      case 'done-already':
        this.#isOver = true;
        return this.#opened.resolve(message);
      case 'refused':
        // A replacement that is refused exits, and its exit starts the next one.
        if (this.#attempt !== undefined) return events.warn(message.message, message.hint);
        return this.#fail(new CaptureError(message.status, message.message, { hint: message.hint }));
      case 'signal-seen':
      case 'notice':
      case 'notice-withdrawn':
      case 'drain-takes':
      case 'fenced':
        return events.heard(message);
      case 'ended':
        this.#isOver = true;
        return this.#ended.resolve(message);
    }
  }

  /** There is no attempt: the run does not start. */
  #fail(reason: CaptureError): void {
    this.#isOver = true;
    this.#opened.reject(reason);
    this.#ended.resolve({ kind: 'lost' });
  }
}

function isLastCall(message: ToSidecar | undefined): boolean {
  return message?.kind === 'task-signalled' && message.lastCall;
}

function diedTooEarly(how: string): CaptureError {
  const hasSaidWhy = how === `exit ${EXIT.internal}`;
  return new CaptureError(
    hasSaidWhy ? EXIT.internal : EXIT.unavailable,
    `the sidecar died before it was ready (${how}); nothing was started`,
    {
      hint: hasSaidWhy
        ? 'see the message before this one'
        : '--log-level debug says more; is the node out of memory or processes?',
    },
  );
}
