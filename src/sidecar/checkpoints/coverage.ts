// How much of what was closed is in a committed checkpoint generation: a flush asks this about a set. Counts closes;
// takes no cut and commits nothing.
import { formatMs } from '../../model/units.ts';
import { Changes } from '../queue/changes.ts';

export type Covered =
  | { readonly kind: 'covered' }
  /** Nothing can be committed before something more is closed. */
  | { readonly kind: 'incomplete'; readonly lacks: string }
  /** The signal aborted first. */
  | { readonly kind: 'late' };

/** A flush waits for this much quiet. A set that needs more is incomplete: something is probably still to come. */
const AWAITED_QUIET_MS = 5000;

/** What a set lacks that is complete after being quiet for this long; undefined if a flush waits for that. */
export function lacksQuiet(forMs: number): string | undefined {
  return forMs <= AWAITED_QUIET_MS ? undefined : `it must be quiet for ${formatMs(forMs)} more`;
}

export class Coverage {
  readonly #changes = new Changes();
  #closes = 0;
  #committedCloses = 0;
  #cutsUnderWay = 0;
  #lacks: string | undefined;

  /** A close was counted. */
  closed(): void {
    this.#closes += 1;
  }

  /** The set was looked at. `lacks`: why no cut can be taken before something more is closed. */
  looked(lacks: string | undefined): void {
    this.#lacks = lacks;
    this.#changes.notify();
  }

  /** A cut was taken. Returns how many closes it covers; no new one if it does not hold all files. */
  cutTaken(isWhole: boolean): number {
    this.#cutsUnderWay += 1;
    return isWhole ? this.#closes : this.#committedCloses;
  }

  committed(closes: number): void {
    this.#cutsUnderWay -= 1;
    this.#committedCloses = Math.max(closes, this.#committedCloses);
    this.#changes.notify();
  }

  /** The cut did not hold or could not be recorded: another one is due, even without a further close. */
  givenUp(): void {
    this.#cutsUnderWay -= 1;
    this.looked(undefined);
  }

  /** Waits until a committed generation covers every close counted before this call, or until none is due. */
  async wait(signal: AbortSignal): Promise<Covered> {
    const closes = this.#closes;
    const isCovered = (): boolean => this.#committedCloses >= closes;
    const isDue = (): boolean => this.#lacks === undefined || this.#cutsUnderWay > 0;
    while (!isCovered() && isDue() && !signal.aborted) await this.#changes.next(signal);
    if (isCovered()) return { kind: 'covered' };
    return isDue() || this.#lacks === undefined
      ? { kind: 'late' }
      : { kind: 'incomplete', lacks: this.#lacks };
  }
}
