// What changes once we know that we will be stopped, while the task still runs: closed files are pushed without pacing
// and the most important ones first, companions are sent, and the launcher learns how long the rest takes.
import { reasonOf } from '../../model/errors.ts';
import { whileLinked } from '../../model/waiting.ts';
import { factsBeneath } from '../../native/files.ts';
import { fileAgeMs } from '../../native/network-files.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { Flush } from '../control/flush.ts';
import type { Outputs } from '../output/outputs.ts';
import type { Files } from '../queue/files.ts';
import type { Staged } from '../queue/staged.ts';
import type { Needs } from '../run/context.ts';
import { type DrainWindow, RECORD_MARGIN_MS } from './drain-window.ts';

type StoppingContext = Needs<'log' | 'signal' | 'sender' | 'root' | 'now'>;

/** How often the launcher gets the drain's expected duration; only while a deadline is known. */
const TELL_EVERY_MS = 1000;

export interface StoppingOptions {
  readonly context: StoppingContext;
  readonly files: Files;
  readonly generations: Generations;
  readonly staged: Staged;
  readonly flush: Pick<Flush, 'now'>;
  readonly outputs: Pick<Outputs, 'soon'>;
  /** How long sending the task's last files takes, as measured, ms. */
  readonly onDrainTakes: (ms: number) => void;
}

export class Stopping {
  readonly #options: StoppingOptions;
  readonly #ending = new AbortController();
  #window: DrainWindow | undefined;
  #signalledAtMs: number | undefined;
  #deadlineMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: StoppingOptions) {
    this.#options = options;
  }

  /** When the task was first asked to end, ms since the epoch. */
  get signalledAtMs(): number | undefined {
    return this.#signalledAtMs;
  }

  /** When we will be stopped, ms since the epoch, as far as notices say: also if the task ends by itself before. */
  get deadlineMs(): number | undefined {
    return this.#deadlineMs;
  }

  /** A signal that asks the task to end is on its way to it. */
  taskSignalled(atMs: number): void {
    // After the task has ended, no later close can come from a dying process.
    if (this.#window !== undefined) return;
    this.#signalledAtMs ??= atMs;
    this.#liftLimit();
    const { staged, generations } = this.#options;
    staged.signalled(atMs);
    generations.stopping(atMs);
    this.#options.outputs.soon();
  }

  /** As in {@link Sidecar}: only a living process changes a ctime (inode(7)). */
  lastChangeMs(sinceMs: number): number {
    const { root, now } = this.#options.context;
    let lastMs = sinceMs;
    for (const { path, lastClose } of this.#options.files.unproven()) {
      const facts = (lastClose?.atMs ?? 0) < sinceMs ? undefined : factsBeneath(root, path);
      const ageMs = facts === undefined ? undefined : fileAgeMs(root, facts.ctimeNs);
      if (ageMs !== undefined && ageMs >= 0) lastMs = Math.max(lastMs, now() - ageMs);
    }
    return lastMs;
  }

  /** We will be stopped at this instant, ms since the epoch; undefined: the notice was withdrawn. */
  noticed(deadlineMs: number | undefined): void {
    this.#deadlineMs = deadlineMs;
    if (deadlineMs !== undefined) this.#liftLimit();
    else if (this.#signalledAtMs === undefined) this.#options.context.sender.bandwidth?.restore();
    this.#options.files.deadline(deadlineMs === undefined ? undefined : deadlineMs - RECORD_MARGIN_MS);
    clearInterval(this.#timer);
    if (deadlineMs === undefined) return;
    if (this.#window !== undefined) return this.#window.endBy(deadlineMs);
    this.#hurry();
    this.#tell();
    this.#timer = setInterval(() => this.#tell(), TELL_EVERY_MS).unref();
  }

  /** Nothing is certain yet, but files that are closed by now should be made safe. */
  advised(): void {
    if (this.#window === undefined) this.#hurry();
  }

  /** The drain has begun; a later deadline applies to it. */
  drains(window: DrainWindow): void {
    this.#window = window;
    this.close();
  }

  close(): void {
    this.#ending.abort();
    clearInterval(this.#timer);
  }

  #hurry(): void {
    const { context, generations, flush, outputs } = this.#options;
    generations.stopping();
    outputs.soon();
    const signals = [this.#ending.signal, context.signal] as const;
    whileLinked(signals, (signal) => flush.now(signal, false)).catch((error: unknown) =>
      context.log.debug(`a flush ended early: ${reasonOf(error)}`),
    );
  }

  /** `--bandwidth`: a rate that was measured under it is not what the link can carry. */
  #liftLimit(): void {
    const { bandwidth } = this.#options.context.sender;
    if (bandwidth?.lift() === true) this.#options.files.forgetRate();
  }

  #tell(): void {
    const takesMs = this.#options.files.drainMs;
    if (takesMs !== undefined) this.#options.onDrainTakes(Math.round(takesMs));
  }
}
