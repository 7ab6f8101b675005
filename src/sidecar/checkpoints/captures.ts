// Companions between two checkpoints: captured at intervals, before the task is stopped, and for a flush. The newest
// generation then names the new segments; if there is no checkpoint, the companions are a generation of their own.
import { reasonOf } from '../../model/errors.ts';
import { type GenerationFiles, isRenewed, nameInNewest } from './commit.ts';
import type { CutParts } from './pending-cut.ts';

export interface CapturesOptions extends Pick<CutParts, 'context' | 'companions'> {
  /** Runs `step` once the commits before it are over. */
  readonly inTurn: (step: () => Promise<void>) => Promise<void>;
  /** Commits a generation; call it inside `inTurn`. */
  readonly write: (files: GenerationFiles) => Promise<void>;
  /** Aborts when only the last cut is still to come. */
  readonly ending: AbortSignal;
}

export interface Captures {
  /** A generation was committed: its companions are of this moment. */
  readonly committed: () => void;
  /** Captures them, unless a capture is under way. */
  readonly soon: () => void;
  /** Resolves to true when all that companions hold by now is stored and recorded. Never rejects. */
  readonly now: () => Promise<boolean>;
  readonly close: () => void;
}

export function openCaptures(options: CapturesOptions): Captures {
  const { context, companions, inTurn, write, ending } = options;
  const { ledger, log, outage, signal, settings } = context;
  const now = async (): Promise<boolean> => {
    if (!companions.areDue) return true;
    try {
      const capture = await companions.capture({ atCheckpoint: false }, signal);
      if (capture.kind === 'moved' || ending.aborted) return false;
      await inTurn(async () => {
        const { current } = companions;
        if (companions.areWholeSet) {
          if (isRenewed(ledger, current)) await write({ members: [], companions: current });
        } else if (nameInNewest(context, current)) await ledger.write('stored', {}, signal);
      });
      return true;
    } catch (error) {
      if (!signal.aborted && !outage.isKnown)
        log.warn(`companions could not be stored and are tried again: ${reasonOf(error)}`);
      return false;
    }
  };
  const clock = companions.areDeclared
    ? openCompanionClock(() => now().then(() => undefined), settings.companionIntervalMs)
    : undefined;
  return {
    committed: () => clock?.captured(),
    soon: () => clock?.now(),
    now,
    close: () => clock?.close(),
  };
}

export interface CompanionClock {
  /** They were captured just now. */
  captured(): void;
  /** Captures them at once, unless a capture is under way. */
  now(): void;
  /** No capture begins any more. */
  close(): void;
}

/** `capture` must not reject. */
export function openCompanionClock(capture: () => Promise<void>, everyMs: number): CompanionClock {
  let timer: NodeJS.Timeout | undefined;
  let isUnderWay = false;
  let isClosed = false;
  const captured = (): void => {
    clearTimeout(timer);
    if (!isClosed) timer = setTimeout(now, everyMs);
  };
  const now = (): void => {
    if (isUnderWay || isClosed) return;
    isUnderWay = true;
    void capture().finally(() => {
      isUnderWay = false;
      captured();
    });
  };
  captured();
  return {
    captured,
    now,
    close: () => {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
