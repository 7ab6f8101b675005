// Which indices of an array are left to do. Only the store knows; one listing is enough.
import { openHeard } from '../array/stored-array.ts';
import { STALE_AFTER_MS, stateOf } from '../array/state.ts';
import { survey } from '../array/survey.ts';
import type { Log } from '../log/log.ts';
import type { State } from '../model/format/json-output.ts';
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
  /** All other indices, ascending; last those that some attempt may be working on, judged by its heartbeats. */
  readonly left: Uint32Array;
  /** Indices of `left` that some attempt may be working on. */
  readonly alive: ReadonlySet<number>;
  /** The key of the newest record of an index of `left`; empty if there is none. */
  lastSeen(index: number): string;
}

export async function storedState(
  { settings, taskName, indices }: StoredArray,
  log: Log,
  signal: AbortSignal,
): Promise<StoredState> {
  const { store, close } = await openHeard({ settings, taskName }, { log });
  try {
    const { rows, nowMs } = await survey({ store, taskName }, clockMs(), signal);
    const known = new Map<number | undefined, { readonly state: State; readonly key: string }>();
    for (const row of rows)
      known.set(numberOfIndex(row.index), {
        state: stateOf(row, nowMs, STALE_AFTER_MS),
        key: row.newest.key,
      });
    const all = indexArray(indices);
    const alive = all.filter((index) => known.get(index)?.state === 'running');
    let size = 0;
    for (const index of all) {
      const state = known.get(index)?.state;
      if (state !== 'done' && state !== 'running') all[size++] = index;
    }
    all.set(alive, size);
    size += alive.length;
    const lastSeen = (index: number): string => known.get(index)?.key ?? '';
    return { done: all.length - size, left: all.subarray(0, size), alive: new Set(alive), lastSeen };
  } finally {
    await close();
  }
}
