// Warns once, within a minute, that the task closes checkpoints faster than its sets can be sent: why there is no newer
// set, and which option helps. A large set that no newer checkpoint follows may take its time.
import { formatBytes, formatMs, plural } from '../../model/units.ts';
import type { Needs } from '../run/context.ts';
import type { TakenCut } from './cutting.ts';

/** With the limit after which a set is begun at the latest, this is less than a minute. */
const SLOW_MS = 45_000;

export class SlowSet {
  readonly #context: Needs<'settings' | 'log' | 'outage'>;
  #timer: NodeJS.Timeout | undefined;
  #hasWarned = false;

  constructor(context: Needs<'settings' | 'log' | 'outage'>) {
    this.#context = context;
  }

  /** A set is being sent. `isBehind`: true if one of its files was closed again since. */
  began(taken: TakenCut, isBehind: () => boolean): void {
    if (this.#hasWarned) return;
    this.ended();
    let ms = 0;
    this.#timer = setInterval(() => {
      ms += SLOW_MS;
      if (isBehind() && !this.#context.outage.isKnown) this.#tell(taken, ms);
    }, SLOW_MS);
  }

  /** The set is stored, or given up. */
  ended(): void {
    clearInterval(this.#timer);
  }

  #tell({ states }: TakenCut, ms: number): void {
    this.#hasWarned = true;
    this.ended();
    const { log, settings } = this.#context;
    const bytes = [...states.values()].reduce((sum, { size }) => sum + size, 0);
    const isLimited = settings.bandwidthBytes !== undefined;
    log.warn(
      `the task closes checkpoints faster than they are sent: one of ${plural(states.size, 'file')} ` +
        `(${formatBytes(bytes)}) is still on its way after ${formatMs(ms)}, and newer ones wait for it`,
      {
        hint: isLimited
          ? 'a higher --bandwidth, or write checkpoints less often'
          : 'write checkpoints less often, or let fewer bytes be sent: --compression zstd:auto, --newest 1',
      },
    );
  }
}
