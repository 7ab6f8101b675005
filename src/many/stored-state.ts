// Which indices of an array are left to do? Only the store knows: one listing tells.
import { openHeard } from '../array/place.ts';
import { STALE_AFTER_MS, statesOf } from '../array/state.ts';
import { survey } from '../array/survey.ts';
import type { Log } from '../log/log.ts';
import type { StoreSettings } from '../model/format/settings.ts';
import { arrayOf, type IndexSet } from '../model/index-set.ts';
import { clockMs } from '../native/clock.ts';

export interface StoredArray {
  readonly settings: StoreSettings;
  readonly taskName: string;
  readonly indices: IndexSet;
}

/** What the store says of the indices of an array. */
export interface StoredState {
  readonly done: number;
  /** All others, ascending. */
  readonly left: Uint32Array;
  /** Those of `left` that are at work in some attempt, by its signs of life. */
  readonly alive: ReadonlySet<number>;
}

export async function storedState(
  { settings, taskName, indices }: StoredArray,
  log: Log,
  signal: AbortSignal,
): Promise<StoredState> {
  const { store, close } = await openHeard({ settings, taskName }, { log });
  try {
    const found = await survey({ store, taskName }, clockMs(), signal);
    const left = arrayOf(indices);
    const alive = new Set<number>();
    let [at, done] = [0, 0];
    for (const { index, state } of statesOf(found, STALE_AFTER_MS, indices)) {
      if (state === 'running') alive.add(Number(index));
      if (state === 'done') done += 1;
      else left[at++] = Number(index);
    }
    return { done, left: left.subarray(0, at), alive };
  } finally {
    await close();
  }
}
