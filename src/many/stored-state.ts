// Which indices of an array are left to do? Only the store knows: one listing tells.
import { openHeard } from '../array/stored-array.ts';
import { STALE_AFTER_MS, stateOf } from '../array/state.ts';
import { survey } from '../array/survey.ts';
import type { Log } from '../log/log.ts';
import type { StoreSettings } from '../model/format/settings.ts';
import { arrayOf, type IndexSet, numberOfIndex } from '../model/index-set.ts';
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
    const { rows, nowMs } = await survey({ store, taskName }, clockMs(), signal);
    const states = new Map(
      rows.map((row) => [numberOfIndex(row.index), stateOf(row, nowMs, STALE_AFTER_MS)] as const),
    );
    const all = arrayOf(indices);
    const alive = new Set<number>();
    let size = 0;
    for (const index of all) {
      const state = states.get(index);
      if (state === 'running') alive.add(index);
      if (state !== 'done') all[size++] = index;
    }
    return { done: all.length - size, left: all.subarray(0, size), alive };
  } finally {
    await close();
  }
}
