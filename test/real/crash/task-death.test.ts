// The task dies in the middle of a write, and then the machine: no restore of a torn set, no torn first result.
// CRASH_SEED repeats a run.
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { BIN } from '../../e2e/support.ts';
import { pick, seeded } from './sweep.ts';
import { dieTwice, type TaskDeath } from './task-death.ts';

const CHAINS = 250;
/** Each of them mostly waits. */
const AT_ONCE = 8;
/** For a hang: it takes some two minutes on two idle cores. */
const BOUND_MS = 30 * 60_000;
/** The machine's death follows within this time. */
const MOST_GAP_MS = 5000;
const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000);

function anyDeath(random: () => number): TaskDeath {
  return {
    above: pick(['none', 'shell that passes it on later', 'shell that lives on'], random),
    dieAt: 4 + Math.floor(random() * 9),
    roundMs: pick([50, 200, 700], random),
    // Most of what can go wrong goes wrong soon.
    gapMs: Math.floor(random() ** 2 * MOST_GAP_MS),
  };
}

describe(
  'a task that is killed in the middle of a write, and then the machine',
  { timeout: BOUND_MS },
  () => {
    it(`leaves nothing torn that the next attempt takes for whole, ${CHAINS} times`, async () => {
      console.log(`crash: seed ${seed}`);
      const random = seeded(seed);
      const root = fs.mkdtempSync('/dev/shm/capture-task-death-');
      onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }));
      const queue = Array.from({ length: CHAINS }, () => anyDeath(random)).entries();
      const failures: string[] = [];
      const work = async (): Promise<void> => {
        for (const [n, death] of queue) {
          const dir = path.join(root, String(n));
          fs.mkdirSync(dir);
          // oxlint-disable-next-line no-await-in-loop -- one after the other, in each of some workers
          const failure = await dieTwice(BIN, dir, death);
          if (failure === undefined) fs.rmSync(dir, { recursive: true });
          else failures.push(`CRASH_SEED=${seed}, chain ${n}, ${JSON.stringify(death)}: ${failure}`);
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
      expect(failures).toEqual([]);
    });
  },
);
