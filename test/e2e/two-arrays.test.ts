// Two `capture array` on one store: no task is run twice, and what one that was killed has left is run.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { scratchOf } from '../many/support.ts';
import { openPlace, type Place, type Run, until } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const at = (name: string): string => path.join(place.dir, name);
const begun = (): readonly string[] =>
  fs.existsSync(at('begun')) ? fs.readFileSync(at('begun'), 'utf8').trim().split('\n') : [];
const release = (name: string): void => fs.writeFileSync(at(`go-${name}`), '');

/** Each task says that it has begun, and waits until it is released. */
function array(who: string, indices: string): Run {
  const task = `echo ${who}{index} >>${at('begun')}; until [ -e ${at('go-')}${who}{index} ]; do sleep 0.05; done; echo ${who} >r`;
  const where = ['--array', indices, '--jobs', '1', '--to', place.store, '--scratch', scratchOf(place)];
  return place.capture(['array', ...where, '-r', 'r', '--task-name', 't', '--', 'sh', '-c', task]);
}

const hasBegun = (what: string): Promise<void> => until(() => begun().includes(what), `${what} has begun`);
const ofIndex = (index: number): readonly string[] => begun().filter((one) => one.endsWith(String(index)));

it('leaves alone what another one has begun since, and exits 76 if that is not done', async () => {
  const a = array('A', '0-1');
  await hasBegun('A0');
  const b = array('B', '1');
  await hasBegun('B1');
  release('A0');
  expect(await a.status, a.stderr()).toBe(76);
  expect(a.stderr()).toContain('index 1 is at work in another attempt: it is left to that one');
  release('B1');
  expect(await b.status, b.stderr()).toBe(0);
  expect(begun()).toEqual(['A0', 'B1']);
});

it('exits 0 if the other one has done by the end what was left to it', async () => {
  const a = array('A', '0-2');
  await hasBegun('A0');
  const b = array('B', '1');
  await hasBegun('B1');
  release('A0');
  await hasBegun('A2');
  release('B1');
  expect(await b.status, b.stderr()).toBe(0);
  release('A2');
  expect(await a.status, a.stderr()).toBe(0);
  expect(a.stderr()).toContain('3 of 3 done');
});

it('begins with what nobody runs, and exits 0 if the other one has done the rest in the meantime', async () => {
  const a = array('A', '0-1');
  await hasBegun('A0');
  const b = array('B', '0-1');
  await hasBegun('B1');
  release('A0');
  expect(await a.status, a.stderr()).toBe(76);
  release('B1');
  expect(await b.status, b.stderr()).toBe(0);
  expect(begun()).toEqual(['A0', 'B1']);
  expect(b.stderr()).toContain('2 of 2 done');
});

it('takes over what one that was killed has begun', async () => {
  const a = array('A', '0-1');
  await hasBegun('A0');
  a.child.kill('SIGKILL');
  await a.status;
  const b = array('B', '0-1');
  release('B0');
  release('B1');
  expect(await b.status, b.stderr()).toBe(0);
  expect(ofIndex(0)).toEqual(['A0', 'B0']);
  release('A0');
});
