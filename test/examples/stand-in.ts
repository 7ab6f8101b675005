// An engine that is not here, and a program in place of LAMMPS. Each test of an engine says which variables it sets, which
// signals it sends, and by which rule of the example it starts a task again; here is what all of them have in common: one
// task of the array is preempted, another one loses its machine, and all end as if nothing had happened.
import fs from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { BIN, childrenOf, killTree, openPlace, type Place, type Run, until } from '../e2e/support.ts';
import { expectOutputOf } from './expected.ts';

const EXAMPLES = path.resolve(import.meta.dirname, '../../examples');
/** The store of the examples. */
const BUCKET = 's3://my-bucket/melt';

/**
 * Six steps with a checkpoint after each; in the middle it waits for its end, once, if its index is to be ended. No process
 * of it ends before: what a dying process may have closed is stored ten seconds later.
 */
const PROGRAM = `#!/bin/sh
step=0 sum=0 hold="$HOLDS/$CAPTURED_INDEX"
[ ! -e melt.chk ] || read -r step sum < melt.chk
exec 9>> melt.log
while [ $step -lt 6 ]; do
  step=$((step + 1)) sum=$((sum * 3 + step + CAPTURED_INDEX))
  echo "$step $sum" >&9
  echo "$step $sum" > frame.$step.dump
  echo "$step $sum" > melt.chk
  if [ $step -ge 3 ] && [ -e "$hold" ] && [ ! -e "$hold.pid" ]; then
    echo $$ > "$hold.pid"
    exec sleep 600
  fi
done
echo "$sum" > final.data
`;
const resultOf = (index: number): string =>
  `${[1, 2, 3, 4, 5, 6].reduce((sum, step) => sum * 3 + step + index, 0)}\n`;

export interface Engine {
  readonly place: Place;
  /** Where the example stores; it is the directory of {@link Place.store}. */
  readonly store: string;
  /** What each task's environment has beside the engine's variables. */
  readonly env: NodeJS.ProcessEnv;
  /** A file of the example that names the store of this test. */
  textOf(file: string): string;
  /** A program that the example calls; its script has `$told`, a file to write to. */
  provide(name: string, script: string): void;
  /** What such a program has written. */
  told(): string;
  /** These indices wait half-way for their end. */
  hold(...indices: readonly number[]): void;
  /** Resolves when an index that is held has stored all that it has written: with the program that waits. */
  untilHalf(index: number): Promise<number>;
  /** Resolves when an index is done. */
  untilDone(index: number): Promise<void>;
  /** What is stored is what uninterrupted runs make, and `capture status` prints what the example says. */
  expectDone(run: string, indices: readonly number[]): Promise<void>;
}

export function openEngine(example: string): Engine {
  const place = openPlace({ below: '/dev/shm' });
  const at = (...names: readonly string[]): string => path.join(place.dir, ...names);
  for (const dir of ['bin', 'holds', 'tmp', 'store']) fs.mkdirSync(at(dir));
  const told = at('told');
  const isThere = (pattern: RegExp): boolean => place.keys().some((key) => pattern.test(key));
  const recordOf = (index: number, kind: string): RegExp =>
    new RegExp(`/\\.capture/lmp/${index}/.*\\.${kind}\\.json$`);
  const provide = (name: string, script: string): void =>
    fs.writeFileSync(at('bin', name), script.replaceAll('$told', told), { mode: 0o755 });
  provide('lmp', PROGRAM);
  fs.symlinkSync(BIN, at('bin/capture'));
  fs.writeFileSync(at('store/in.melt'), 'input\n');
  return {
    place,
    store: place.store,
    env: {
      PATH: `${at('bin')}:${process.env['PATH']}`,
      HOLDS: at('holds'),
      TMPDIR: at('tmp'),
      // The machine of the tests is in no cloud, or in one that answers as it likes.
      CAPTURE_NOTICE: 'none',
    },
    textOf: (file) =>
      fs.readFileSync(path.join(EXAMPLES, example, file), 'utf8').replaceAll(BUCKET, place.store),
    provide,
    told: () => (fs.existsSync(told) ? fs.readFileSync(told, 'utf8') : ''),
    hold: (...indices) => {
      for (const index of indices) {
        fs.rmSync(at('holds', `${index}.pid`), { force: true });
        fs.writeFileSync(at('holds', String(index)), '');
      }
    },
    untilHalf: async (index) => {
      const pid = at('holds', `${index}.pid`);
      const frames = [1, 2, 3].map((step) => new RegExp(`/frame\\.${step}\\.dump\\.${index}$`));
      const isStored = (): boolean => [...frames, recordOf(index, 'checkpoint')].every(isThere);
      await until(
        () => fs.existsSync(pid) && fs.statSync(pid).size > 0 && isStored(),
        `index ${index} has stored what it has`,
      );
      return Number(fs.readFileSync(pid, 'utf8'));
    },
    untilDone: (index) => until(() => isThere(recordOf(index, 'done')), `index ${index} is done`),
    expectDone: async (run, indices) => {
      for (const index of indices) expect(place.text(`${run}/final.data.${index}`)).toBe(resultOf(index));
      for (const index of indices) {
        // One log of all attempts: what a killed one had written after its last checkpoint is in it twice.
        const rows = place.text(`${run}/melt.log.${index}`).split('\n');
        expect([...new Set(rows.map((row) => row.split(' ')[0]))]).toEqual([
          '1',
          '2',
          '3',
          '4',
          '5',
          '6',
          '',
        ]);
      }
      const frames = place.keys().filter((key) => key.startsWith(`${run}/frame.`));
      expect(frames).toHaveLength(6 * indices.length);
      const array = `${indices[0]}-${indices.at(-1)}`;
      const status = place.capture(['status', `${place.store}/${run}`, '--array', array]);
      expect(await status.status, status.stderr()).toBe(0);
      expectOutputOf(example, status.stdout());
    },
  };
}

export interface Attempts {
  readonly indices: readonly number[];
  /** Starts this attempt, counted from 0, as the engine does. */
  readonly start: (index: number, attempt: number) => Run;
  /** Takes the machine away from a task, as the engine announces it. */
  readonly preempt: (run: Run) => void;
  /** Whether the engine runs a task again that ended so. */
  readonly isAgain: (status: number, index: number) => boolean;
}

/** Runs all tasks: the second one is preempted half-way, the third one is killed with all its processes. */
export async function runArray(
  engine: Engine,
  { indices, start, preempt, isAgain }: Attempts,
): Promise<void> {
  const [, preempted = -1, lost = -1] = indices;
  engine.hold(preempted, lost);
  const runOne = async (index: number): Promise<void> => {
    for (let attempt = 0; ; attempt += 1) {
      expect(attempt, `attempts of index ${index}`).toBeLessThan(3);
      const run = start(index, attempt);
      const isHeld = attempt === 0 && (index === preempted || index === lost);
      if (isHeld) {
        await engine.untilHalf(index);
        if (index === preempted) preempt(run);
        else killTree(run.pid);
      }
      const status = await run.status;
      if (isHeld && index === lost) continue;
      if (isHeld) expect(isAgain(status, index), `${status}: ${run.stderr()}`).toBe(true);
      else if (!isAgain(status, index)) {
        expect(status, run.stderr()).toBe(0);
        return;
      }
    }
  };
  await Promise.all(indices.map(runOne));
}

/** To the process that the engine has started, and to all below it. */
export function signalAll(signal: NodeJS.Signals): (run: Run) => void {
  const all = (pid: number): readonly number[] => [pid, ...childrenOf(pid).flatMap(all)];
  return ({ pid }) => {
    for (const one of all(pid)) {
      try {
        process.kill(one, signal);
      } catch {
        // It ended by the signal to another one.
      }
    }
  };
}

/** To the process that the engine has started, alone. */
export function signalFirst(signal: NodeJS.Signals): (run: Run) => void {
  return ({ pid }) => void process.kill(pid, signal);
}

/** The number range in a text, such as `0-3`. */
export function rangeIn(text: string, pattern: RegExp): readonly number[] {
  const [, first = '', last = ''] = pattern.exec(text) ?? [];
  return Array.from({ length: Number(last) - Number(first) + 1 }, (_, n) => Number(first) + n);
}
