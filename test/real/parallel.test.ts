// GNU parallel in place of a scheduler: the script of examples/gnu-parallel. It starts a preempted task again; and after all
// was killed, the same line does what is left.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { killTree, type Run } from '../e2e/support.ts';
import { type Engine, openEngine } from '../examples/stand-in.ts';

const INDICES = [1, 2, 3, 4];

let engine: Engine;
beforeEach(() => {
  engine = openEngine('gnu-parallel');
});
afterEach(() => engine.place.close());

/** The launcher of a task. */
const parentOf = (pid: number): number =>
  Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }));

it('GNU parallel runs each index until it is done, and what is done no more', async () => {
  const script = path.join(engine.place.dir, 'sweep.sh');
  fs.writeFileSync(script, engine.textOf('sweep.sh'), { mode: 0o755 });
  const start = (): Run => engine.place.exec([script], { ...engine.env, CAPTURE_COMPRESSION: 'none' });

  engine.hold(2, 3);
  const killed = start();
  await Promise.all([engine.untilHalf(2), engine.untilHalf(3), engine.untilDone(1)]);
  killTree(killed.pid);
  await killed.status;

  engine.hold(2);
  const next = start();
  process.kill(parentOf(await engine.untilHalf(2)), 'SIGTERM');
  expect(await next.status, next.stderr()).toBe(0);
  expect(next.stderr()).toContain('done already');
  // What parallel prints of a task is what its last attempt has said.
  expect(engine.place.keys()).toContainEqual(expect.stringMatching(/\/lmp\/2\/0002-.*\.preempted\.json$/));

  await engine.expectDone('run1', INDICES);
  const again = start();
  expect(await again.status, again.stderr()).toBe(0);
  expect(again.stderr().match(/done already/g)).toHaveLength(4);
});
