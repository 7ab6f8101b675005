// More files at once than the kernel's queue holds, or nearly.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { runFixture, watched } from './support.ts';

/** Two writers' worth of work on a machine that may be busy with other things. */
const BOUND_MS = 300_000;

it(
  'loses none of 200,000 closes',
  async () => {
    const { dir, events, watcher } = await watched();
    await runFixture('make-files', dir, '0', '200000');
    watcher.drainNow();
    expect(new Set(events.map((event) => event.path)).size).toBe(200_000);
  },
  BOUND_MS,
);

it(
  'loses none of 76,000 closes while it cannot read, and says that the queue overflowed',
  async () => {
    const { dir, events, overflows, until } = await watched();
    const program = path.join(import.meta.dirname, 'fixtures', 'make-files.mjs');
    // Synchronous: the loop stands still meanwhile.
    spawnSync(process.execPath, [program, dir, '0', '76000'], { stdio: 'inherit' });
    const paths = new Set<string>();
    let counted = 0;
    await until(() => {
      for (; counted < events.length; counted += 1) paths.add(events[counted]?.path ?? '');
      return paths.size === 76_000;
    });
    expect(overflows()).toBeGreaterThan(0);
  },
  BOUND_MS,
);

it(
  'keeps at most 32,768 closes that wait for their turn: a walk finds the others',
  async () => {
    const { dir, events, overflows, until, watcher } = await watched();
    for (let n = 0; n < 40_000; n += 1) {
      fs.writeFileSync(`${dir}/f${n}`, 'x');
      // It reads what the kernel has, and tells only what it is asked for.
      if (n % 5000 === 4999) watcher.catchUp('another');
    }
    const paths = new Set<string>();
    let counted = 0;
    await until(() => {
      for (; counted < events.length; counted += 1) paths.add(events[counted]?.path ?? '');
      return paths.size === 40_000;
    });
    expect(overflows()).toBe(1);
  },
  BOUND_MS,
);
