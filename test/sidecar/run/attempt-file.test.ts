// The order in which a task closes its checkpoint files, as a sidecar leaves it to the one that replaces it. What one
// attempt has learned no other believes, and what is damaged counts as nothing.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Order } from '../../../src/model/checkpoint/rounds.ts';
import { type AttemptPlace, readOrder, writeOrder } from '../../../src/sidecar/run/attempt-file.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

const ORDER: Order = { ids: ['a.chk', 'b.chk'], times: 20, insideMs: 3, betweenMs: 900 };

let root: TestDir;
let place: AttemptPlace;
beforeEach(() => {
  root = testDir();
  fs.mkdirSync(`${root.path}/.capture`);
  place = { workdir: root.path, sharedWorkdir: false, identity: {} } as AttemptPlace;
});
afterEach(() => root.remove());

/** The only file there. */
function orderFile(): string {
  const [name, ...others] = fs.readdirSync(`${root.path}/.capture`);
  expect(others).toEqual([]);
  return `${root.path}/.capture/${name ?? ''}`;
}

it('an order is restored for the same attempt, and for no other', () => {
  writeOrder(place, 2, ORDER);
  expect(readOrder(place, 2)).toEqual(ORDER);
  expect(readOrder(place, 1)).toBeUndefined();
  expect(readOrder(place, 3)).toBeUndefined();
});

it('a lost order is removed, and so is the one before it', () => {
  writeOrder(place, 2, ORDER);
  writeOrder(place, 2, undefined);
  expect(readOrder(place, 2)).toBeUndefined();
  expect(fs.readdirSync(`${root.path}/.capture`)).toEqual([]);
});

it('an order that cannot be rewritten leaves no older one', () => {
  writeOrder(place, 2, ORDER);
  fs.mkdirSync(`${orderFile()}.new`);
  writeOrder(place, 2, { ...ORDER, ids: ['b.chk', 'a.chk'] });
  expect(readOrder(place, 2)).toBeUndefined();
});

it.each<[string, (file: string) => void]>([
  ['is cut short', (file) => fs.truncateSync(file, 20)],
  [
    'names no file',
    (file) => fs.writeFileSync(file, JSON.stringify({ attempt: 2, order: { ...ORDER, ids: [] } })),
  ],
  [
    'is a link',
    (file) => {
      fs.renameSync(file, `${root.path}/elsewhere`);
      fs.symlinkSync(`${root.path}/elsewhere`, file);
    },
  ],
])('an order that %s is ignored', (_, damage) => {
  writeOrder(place, 2, ORDER);
  damage(orderFile());
  expect(readOrder(place, 2)).toBeUndefined();
});
