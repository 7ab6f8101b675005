// Keeps one sidecar running: starts it, speaks to it, and replaces it if it dies, so that neither its crash nor its
// absence touches the task. It never decides about the task.
import type { ChildProcess } from 'node:child_process';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { FromSidecar, News, OutputsFrom, ToSidecar } from '../model/format/messages.ts';
import type { Settings } from '../model/format/settings.ts';
import { formatMs } from '../model/units.ts';
import { type BackOff, newDeferred, pauseAfter } from '../model/waiting.ts';
import { clockMs, clockOffsetMs } from '../native/clock.ts';
import { type StartedSidecar, startSidecar } from './sidecar-start.ts';

const RESTART: BackOff = { firstMs: 100, mostMs: 10_000 };
/** So many deaths within this time are no accident: then it stays down. */
const DEATHS = 5;
const DEATHS_WITHIN_MS = 10 * 60_000;
/** After its last word it only has to exit. */
const EXIT_WITHIN_MS = 2000;

export type Opening = Extract<FromSidecar, { readonly kind: 'ready' | 'done-already' }>;
/** `lost`: it died too often, nobody records any more. */
export type Ending = Extract<FromSidecar, { readonly kind: 'ended' }> | { readonly kind: 'lost' };

export interface SidecarOptions {
  /** The module to run. */
  readonly entry: string;
  /** One that has been started before; it runs that module. */
  readonly started: StartedSidecar | undefined;
  readonly settings: Settings;
  readonly outputsFrom: OutputsFrom | undefined;
  /** Running children that we started ourselves; kept up to date here. */
  readonly ownChildren: Set<number>;
}

interface SidecarEvents {
  readonly heard: (news: News) => void;
  readonly warn: (line: string, hint?: string) => void;
}

export class SidecarProcess {
  readonly #options: SidecarOptions;
  readonly #opened = newDeferred<Opening>();
  readonly #ended = newDeferred<Ending>();
  /** What a replacement must be told again, by kind: the newest of each. */
  readonly #told = new Map<ToSidecar['kind'], ToSidecar>();
  readonly #deathsAtMs: number[] = [];
  #attempt: number | undefined;
  #child: ChildProcess | undefined;
  #restart: NodeJS.Timeout | undefined;
  #isOver = false;
  /** The one that has been started before, until we take it. */
  #waiting: StartedSidecar | undefined;

  constructor(options: SidecarOptions) {
    this.#options = options;
    this.#waiting = options.started;
  }

  /** Rejects with the reason if it refuses, or dies before it is ready. */
  get opened(): Promise<Opening> {
    return this.#opened.promise;
  }

  get ended(): Promise<Ending> {
    return this.#ended.promise;
  }

  /** `lost` if that takes longer than `ms`. */
  async endedWithin(ms: number): Promise<Ending> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<Ending>((resolve) => {
      timer = setTimeout(() => resolve({ kind: 'lost' }), ms);
    });
    try {
      return await Promise.race([this.ended, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Undefined before it is ready. */
  attempt(): number | undefined {
    return this.#attempt;
  }

  /** To be called once, and closed by the caller. A replacement starts by itself. */
  start(events: SidecarEvents): void {
    let started: StartedSidecar;
    try {
      started = this.#waiting ?? startSidecar(this.#options.entry);
    } catch (error) {
      return this.#replace(reasonOf(error), events); // ENOMEM is thrown at once; the task must not notice
    }
    this.#waiting = undefined;
    const { child } = started;
    this.#child = child;
    noteOwn(child, this.#options.ownChildren);
    child.on('message', (message) => this.#hear(message as FromSidecar, events));
    void started.gone.then((how) => {
      this.#child = undefined;
      if (!this.#isOver) this.#replace(how, events);
    });
    const { settings, outputsFrom } = this.#options;
    send(child, {
      kind: 'start',
      settings,
      attempt: this.#attempt,
      clockOffsetMs: clockOffsetMs(),
      outputsFrom,
    });
    for (const message of this.#told.values()) send(child, message);
  }

  /** Sent now, and again to every replacement. */
  tell(message: ToSidecar): void {
    const before = this.#told.get(message.kind);
    // The last call stays the last call, whatever signal follows it.
    if (!isLastCall(before) || isLastCall(message)) this.#told.set(message.kind, message);
    if (this.#child !== undefined) send(this.#child, message);
  }

  /** Lets it exit, or ends it; resolves when it is gone. */
  async close(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#restart);
    if (this.#child !== undefined) await endOf(this.#child);
  }

  #replace(how: string, events: SidecarEvents): void {
    if (this.#attempt === undefined) return this.#fail(diedTooEarly(how));
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
    const waitMs = pauseAfter(RESTART, recent - 1);
    events.warn(`the sidecar died (${how}); the task goes on, a new one starts in ${formatMs(waitMs)}`);
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
        // A replacement that is refused has died of it: its exit starts the next one.
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

function noteOwn(child: ChildProcess, ownChildren: Set<number>): void {
  const { pid } = child;
  if (pid === undefined) return;
  if (hasEnded(child)) return void ownChildren.delete(pid);
  ownChildren.add(pid);
  child.once('exit', () => ownChildren.delete(pid));
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

/** A channel that breaks is no error of its own: the sidecar's exit follows and is what counts. */
function send(child: ChildProcess, message: ToSidecar): void {
  if (child.connected) child.send(message, () => undefined);
}

function isLastCall(message: ToSidecar | undefined): boolean {
  return message?.kind === 'task-signalled' && message.lastCall;
}

function diedTooEarly(how: string): CaptureError {
  return new CaptureError(
    EXIT.unavailable,
    `the sidecar died before it was ready (${how}); nothing was started`,
    {
      hint: '--log-level debug says more; is the node out of memory or processes?',
    },
  );
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || hasEnded(child)) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const late = setTimeout(() => child.kill('SIGKILL'), EXIT_WITHIN_MS);
  if (child.connected) child.disconnect();
  await exited;
  clearTimeout(late);
}
