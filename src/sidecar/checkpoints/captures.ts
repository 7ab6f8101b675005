// Captures companions between two checkpoints: at intervals, before the task is stopped, and for a flush. The newest
// generation then names the new segments. If there is no checkpoint, the companions are a generation of their own.
import { reasonOf } from '../../model/errors.ts';
import {
  type GenerationFiles,
  isRenewed,
  LACKS_SOME,
  type Marks,
  nameInNewest,
} from './generation-record.ts';
import type { CutParts } from './pending-cut.ts';

interface CapturesOptions extends Pick<CutParts, 'context' | 'companions'> {
  /** Runs `step` once earlier commits have ended. */
  readonly inTurn: (step: () => Promise<void>) => Promise<void>;
  /** Commits a generation; call it inside `inTurn`. */
  readonly write: (files: GenerationFiles, marks: Marks) => Promise<void>;
  /** Aborts when only the last cut remains. */
  readonly ending: AbortSignal;
}

export class Captures {
  readonly #options: CapturesOptions;
  readonly #clock: CompanionClock | undefined;

  constructor(options: CapturesOptions) {
    this.#options = options;
    const { context, companions } = options;
    if (companions.areDeclared)
      this.#clock = new CompanionClock(
        () => this.now().then(() => undefined),
        context.settings.companionIntervalMs,
      );
  }

  /** From now on companions are captured at intervals. */
  begin(): void {
    this.#clock?.captured();
  }

  /** A generation was committed: its companions were captured for it just now. */
  committed(): void {
    this.#clock?.captured();
  }

  /** Captures companions, unless a capture is under way. */
  soon(): void {
    this.#clock?.now();
  }

  close(): void {
    this.#clock?.close();
  }

  /** Resolves to true once everything that companions hold at this moment is stored and recorded. Never rejects. */
  async now(): Promise<boolean> {
    const { context, companions, inTurn, write, ending } = this.#options;
    const { ledger, log, outage, signal } = context;
    if (!companions.areDue) return true;
    try {
      const capture = await companions.capture({ atCheckpoint: false }, signal);
      if (capture.kind === 'moved' || ending.aborted) return false;
      await inTurn(async () => {
        const { current } = companions;
        if (companions.areWholeSet) {
          const marks = capture.isWhole ? {} : LACKS_SOME;
          if (isRenewed(ledger, current)) await write({ members: [], companions: current }, marks);
        } else if (nameInNewest(context, current)) await ledger.write('stored', {}, signal);
      });
      return capture.isWhole;
    } catch (error) {
      if (!signal.aborted && !outage.isKnown)
        log.warn(`companions could not be stored and are tried again: ${reasonOf(error)}`);
      return false;
    }
  }
}

/** Starts a capture this long after the previous one has ended. Runs from the first call on. */
export class CompanionClock {
  readonly #capture: () => Promise<void>;
  readonly #everyMs: number;
  #timer: NodeJS.Timeout | undefined;
  #isUnderWay = false;
  #isClosed = false;

  /** `capture` must not reject. */
  constructor(capture: () => Promise<void>, everyMs: number) {
    this.#capture = capture;
    this.#everyMs = everyMs;
  }

  /** Companions were captured just now. */
  captured(): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => this.now(), this.#everyMs);
  }

  /** Captures companions at once, unless a capture is under way. */
  now(): void {
    if (this.#isUnderWay || this.#isClosed) return;
    this.#isUnderWay = true;
    void this.#capture().finally(() => {
      this.#isUnderWay = false;
      this.captured();
    });
  }

  /** Begins no further capture. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}
