// Which indices of an array are left to do. Only the store knows; one listing is enough.
import { openHeard } from '../array/stored-array.ts';
import { STALE_AFTER_MS, stateOf } from '../array/state.ts';
import { survey } from '../array/survey.ts';
import type { Log } from '../log/log.ts';
import type { StoreSettings } from '../model/format/settings.ts';
import { indexArray, type IndexSet, numberOfIndex } from '../model/index-set.ts';
import { clockMs } from '../native/clock.ts';

export interface StoredArray {
  readonly settings: StoreSettings;
  readonly taskName: string;
  readonly indices: IndexSet;
}

/** The state of an array's indices in the store. */
export interface StoredState {
  readonly done: number;
  /** All other indices, ascending. */
  readonly left: Uint32Array;
  /** Indices of `left` that some attempt is working on, judged by its heartbeats. */
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
    const all = indexArray(indices);
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
