// Pauses for work on very many files of one task, so that it does not hold up the other tasks of the process.
import { setImmediate } from 'node:timers/promises';

/** About 1 ms of work. */
const ITEMS_PER_TURN = 64;

/** Passes the items on, and lets the event loop run after each {@link ITEMS_PER_TURN}. */
export async function* inShortTurns<T>(items: Iterable<T>): AsyncGenerator<T> {
  let left = ITEMS_PER_TURN;
  for (const item of items) {
    yield item;
    left -= 1;
    if (left > 0) continue;
    left = ITEMS_PER_TURN;
    // oxlint-disable-next-line no-await-in-loop -- the pause
    await setImmediate();
  }
}
