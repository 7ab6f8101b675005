// Lets a task go on from one checkpoint set to the next: an object that is in the store is not yet a set that is
// recorded, and what is closed before that may take its place.
import fs from 'node:fs';
import type { Place, Run } from './support.ts';

/** What a script waits with until set `$i` is recorded; starts no process, whose end would cast doubt on a close. */
export const UNTIL_SET = 'until [ -e set.$i ]; do :; done';

/** Lets a task go on that waits with {@link UNTIL_SET}, set by set; the run needs `TELL_ALL`. */
export async function letGoOn(run: Run, place: Place, sets: number): Promise<void> {
  for (let set = 1; set <= sets; set += 1) {
    // oxlint-disable-next-line no-await-in-loop -- one set after the other
    await run.tells('checkpoint', set);
    fs.writeFileSync(place.at(`set.${set}`), '');
  }
}
