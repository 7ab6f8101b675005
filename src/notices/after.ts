// A notice that fires by itself after a while, to rehearse a preemption on a machine that nobody takes away.
import { formatMs } from '../model/units.ts';
import { pause } from './metadata.ts';
import type { Source, SourceOptions } from './source.ts';

/** The notice names no instant, so `--grace` applies. */
export class AfterSource implements Source {
  readonly #options: SourceOptions;
  readonly #ms: number;

  /** `ms` after the start, at most what a timer of Node can count. */
  constructor(options: SourceOptions, ms: number) {
    this.#options = options;
    this.#ms = ms;
  }

  async run(): Promise<void> {
    const { tell, signal } = this.#options;
    await pause(this.#ms, signal);
    const what = `rehearsal: a notice ${formatMs(this.#ms)} after the start`;
    tell([{ source: 'after', kind: 'stop', atMs: undefined, what }]);
  }
}
