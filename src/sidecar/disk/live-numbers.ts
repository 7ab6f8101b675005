// --metrics: collects the numbers of all stages that metrics/ shows. If it cannot listen, or cannot write the file, it
// only warns: the task runs all the same.
import type { LiveNumbers as Numbers, Metrics } from '../../metrics/numbers.ts';
import { reasonOf } from '../../model/errors.ts';
import type { FileEvent } from '../../model/file/decide.ts';
import type { FileRole } from '../../model/file/file-state.ts';
import { keyIndex } from '../../model/format/settings.ts';
import type { Needs } from '../run/context.ts';
import type { Gauges } from './gauges.ts';
import type { ResourceWatch } from './resources.ts';

type LiveContext = Needs<'settings' | 'scope' | 'attempt' | 'ledger' | 'outage' | 'log'>;

interface Parts {
  readonly gauges: Pick<Gauges, 'waiting' | 'checkpoints'>;
  readonly resources: Pick<ResourceWatch, 'totals' | 'now' | 'onLook'>;
}

const HINT = 'give each task of a machine a port of its own, or a file: --metrics <dir>/capture-<index>.prom';

export class LiveNumbers {
  readonly #context: LiveContext;
  readonly #parts: Parts;
  readonly #pushed = {
    result: { files: 0, bytes: 0, failures: 0 },
    checkpoint: { files: 0, bytes: 0, failures: 0 },
  };
  #opening: Promise<void> | undefined;
  #metrics: Metrics | undefined;
  /** The file could not be written the last time, and a message said so. */
  #failed = false;

  constructor(context: LiveContext, parts: Parts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** Call it with every event of a file. */
  happened(role: FileRole, event: FileEvent | undefined): void {
    const pushed = this.#pushed[role];
    if (event?.kind === 'failed') pushed.failures += 1;
    if (event?.kind !== 'stored') return;
    pushed.files += 1;
    pushed.bytes += event.durable.size;
  }

  /** What is stored so far. */
  get stored(): { readonly files: number; readonly bytes: number } {
    const { result, checkpoint } = this.#pushed;
    return { files: result.files + checkpoint.files, bytes: result.bytes + checkpoint.bytes };
  }

  /** From now on the numbers are shown, if the user asked for them. The task need not wait for it. */
  open(): void {
    this.#opening ??= this.#open();
  }

  async close(): Promise<void> {
    await this.#opening;
    this.#parts.resources.onLook = undefined;
    await this.#metrics?.close();
  }

  async #open(): Promise<void> {
    const { settings, scope, attempt, log } = this.#context;
    const { metrics: place, identity } = settings;
    if (place === undefined) return;
    const labels = { task: scope.taskName, index: keyIndex(identity), attempt: String(attempt) };
    try {
      const { openMetrics } = await import('../../metrics/metrics.ts');
      this.#metrics = await openMetrics({ place, labels, numbers: () => this.#numbers() });
      log.debug(`metrics at ${this.#metrics.where}`);
      this.#parts.resources.onLook = () => void this.#look();
    } catch (error) {
      log.warn(`no metrics: ${reasonOf(error)}`, { hint: HINT });
    }
  }

  async #look(): Promise<void> {
    try {
      await this.#metrics?.look();
      this.#failed = false;
    } catch (error) {
      if (!this.#failed)
        this.#context.log.warn(`the file of --metrics cannot be written: ${reasonOf(error)}`);
      this.#failed = true;
    }
  }

  #numbers(): Numbers {
    const { ledger, attempt, outage } = this.#context;
    const { gauges, resources } = this.#parts;
    const newest = ledger.generations.find((generation) => generation.attempt === attempt);
    return {
      ...gauges.waiting,
      pushed: this.#pushed,
      checkpoints: gauges.checkpoints,
      newestCheckpointAtMs: newest === undefined ? undefined : Date.parse(newest.at),
      outage: outage.isKnown,
      used: resources.totals,
      now: resources.now,
    };
  }
}
