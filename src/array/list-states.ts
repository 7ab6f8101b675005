// All states of an array at once, for commands that need them twice. A set of --array may be far larger than what is stored.
import { CaptureError } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { IndexSet } from '../model/index-set.ts';
import { roomInHeap } from '../native/heap.ts';
import { type IndexState, statesOf } from './state.ts';
import type { Survey } from './survey.ts';

/** Memory for the state of one index. */
const STATE_BYTES = 100;

/** Throws status 69 if they do not fit into memory. */
export function listStates(
  found: Survey,
  staleAfterMs: number,
  set: IndexSet | undefined,
): readonly IndexState[] {
  const most = Math.floor(roomInHeap() / STATE_BYTES);
  const all: IndexState[] = [];
  for (const one of statesOf(found, staleAfterMs, set)) {
    if (all.length === most)
      throw new CaptureError(
        EXIT.unavailable,
        `there are more than the ${most} indices that fit into memory`,
        { hint: `take a part of them at a time: --array 0-${most - 1}` },
      );
    all.push(one);
  }
  return all;
}
