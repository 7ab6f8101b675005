// The sweep of what killed runs have left, beside a store that does not answer: nothing waits for it, and what is not
// compared is left as it is for the next run.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { newDeferred } from '../../../src/model/waiting.ts';
import { lock } from '../../../src/scratch/abandoned.ts';
import { KilledRuns } from '../../../src/sidecar/disk/killed-runs.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

let base: TestDir;
let asked: ReturnType<typeof newDeferred<void>>;
let warned: string[];
beforeEach(() => {
  base = testDir();
  asked = newDeferred();
  warned = [];
  const root = path.join(base.path, 'capture-work.aaaaaa');
  fs.mkdirSync(path.join(root, '3/.capture'), { recursive: true, mode: 0o700 });
  // The kernel frees the lock of a process that dies: closing the file does the same.
  fs.closeSync(lock(root));
  const lists = { results: ['r'], checkpoints: [], inputs: [], companions: [], exclude: [] };
  const facts = { attempt: 1, runToken: 'x', startedAt: '', inherited: [], baselines: [], manifest: lists };
  fs.writeFileSync(path.join(root, '3/.capture/attempt.json'), JSON.stringify(facts), { mode: 0o600 });
  fs.writeFileSync(path.join(root, '3/r'), 'mine');
});
afterEach(() => base.remove());

function killedRuns(answers: Promise<void>): KilledRuns {
  const list = async function* (): AsyncGenerator<never> {
    asked.resolve();
    await answers;
    yield* [];
  };
  const settings = { workdir: path.join(base.path, 'capture-work.bbbbbb/4'), identity: { taskName: 't' } };
  const log = { warn: (text: string) => warned.push(text) };
  return new KilledRuns({ settings, store: { list }, log } as unknown as ConstructorParameters<
    typeof KilledRuns
  >[0]);
}

const left = (): readonly string[] => fs.readdirSync(path.join(base.path, 'capture-work.aaaaaa')).toSorted();

it('a run that is about to be killed leaves it to the next one', async () => {
  const answers = newDeferred<void>();
  const hurried = killedRuns(answers.promise);
  hurried.begin();
  await asked.promise;
  await hurried.end(true);
  expect([left(), warned]).toEqual([['3', 'lock'], []]);
  answers.resolve();
  await hurried.swept;
  expect([left(), warned]).toEqual([['3', 'lock'], []]);

  const next = killedRuns(Promise.resolve());
  next.begin();
  await next.end(false);
  expect(left()).toEqual(['3.unsaved-1']);
  expect(warned).toEqual([expect.stringContaining('3.unsaved-1')]);
});

it('a run whose task was not started sweeps nothing', async () => {
  await killedRuns(Promise.resolve()).end(false);
  expect(left()).toEqual(['3', 'lock']);
});
