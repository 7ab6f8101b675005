import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { RelPath } from '../../../src/model/path.ts';
import { newDeferred } from '../../../src/model/waiting.ts';
import { HeldStates } from '../../../src/sidecar/checkpoints/held-states.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

let dir: TestDir;
let states: HeldStates;
beforeEach(() => {
  dir = testDir();
  states = new HeldStates(dir);
  dir.write('ck.1', 'state');
});
afterEach(() => {
  states.releaseAll();
  dir.remove();
});

const hold = (path: RelPath): void => states.hold(path, dir.facts(path), 3);
/** What the descriptor leads to; undefined once it is closed. */
function content(fd: number | undefined): string | undefined {
  try {
    return fd === undefined ? undefined : fs.readFileSync(`/proc/self/fd/${fd}`, 'utf8');
  } catch {
    return undefined;
  }
}

it('a state stays readable when its name goes to another file', () => {
  hold('ck.1');
  dir.write('new', 'newer');
  fs.renameSync(`${dir.path}/new`, `${dir.path}/ck.1`);
  expect(states.isWhole('ck.1')).toBe(true);
  expect(states.of('ck.1')?.closes).toBe(3);
  expect(content(states.of('ck.1')?.fd)).toBe('state');
});

it('a state that is written to is no longer whole', () => {
  hold('ck.1');
  fs.appendFileSync(`${dir.path}/ck.1`, ' and more');
  expect(states.isWhole('ck.1')).toBe(false);
});

it('a write shows, although the program puts the time of the file back', () => {
  fs.utimesSync(`${dir.path}/ck.1`, 1, 1);
  hold('ck.1');
  fs.writeFileSync(`${dir.path}/ck.1`, 'STATE', { flag: 'r+' });
  fs.utimesSync(`${dir.path}/ck.1`, 1, 1);
  expect(states.isWhole('ck.1')).toBe(false);
});

it('only the requested state is held', () => {
  const facts = dir.facts('ck.1');
  dir.write('ck.1', 'another');
  states.hold('ck.1', facts, 1);
  states.hold('gone', facts, 1);
  expect([states.of('ck.1'), states.of('gone'), states.isWhole('gone')]).toEqual([
    undefined,
    undefined,
    false,
  ]);
});

it('a released descriptor is closed, but not while it is read', async () => {
  hold('ck.1');
  const fd = states.of('ck.1')?.fd;
  const end = newDeferred<void>();
  const reading = states.whileRead('ck.1', () => end.promise);
  states.release('ck.1');
  expect(states.of('ck.1')).toBeUndefined();
  expect(content(fd)).toBe('state');
  end.resolve();
  await reading;
  expect(content(fd)).toBeUndefined();
  hold('ck.1');
  const other = states.of('ck.1')?.fd;
  states.releaseAll();
  expect(content(other)).toBeUndefined();
});
