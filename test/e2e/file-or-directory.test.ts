// A result's name may become a directory with results, or the reverse. The older results are none any more, and keep no
// later attempt, gathering or check from their work.
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { BIN, openPlace, type Place, type Run } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const OPTIONS = ['--task-name', 't', '-r', 'out', '-i', 'out', '--again-status', '85'] as const;
const run = (task: string): Run =>
  place.run(OPTIONS, ['sh', '-c', task], { PATH: `${path.dirname(BIN)}:${process.env['PATH'] ?? ''}` });

const FILE = 'rm -rf out/x; mkdir -p out; echo file > out/x';
const DIRECTORY = 'rm -rf out/x; mkdir -p out/x; echo in > out/x/in; echo too > out/x/too';
const FLUSH = 'capture flush || exit 9';

describe.each([
  ['a directory', FILE, DIRECTORY, ['out/x/in', 'out/x/too'], ['out/x.0']],
  ['a file', DIRECTORY, FILE, ['out/x'], ['out/x/in.0', 'out/x/too.0']],
])('a result that became %s', (_, before, after, expected, replaced) => {
  const isWhole = async (): Promise<void> => {
    const gathered = path.join(place.dir, 'gathered');
    const gather = place.capture(['gather', place.store, gathered]);
    expect(await gather.status, gather.stderr()).toBe(0);
    const there = fs.readdirSync(path.join(gathered, '0'), { recursive: true, withFileTypes: true });
    const files = there.filter((one) => one.isFile()).map((one) => path.join(one.parentPath, one.name));
    expect(files.map((name) => path.relative(path.join(gathered, '0'), name)).toSorted()).toEqual(expected);
    const verify = place.capture(['verify', place.store]);
    expect(await verify.status, verify.stderr()).toBe(0);
    const ls = place.capture(['ls', place.store, '0']);
    expect(await ls.status).toBe(0);
    for (const key of replaced) expect(ls.stdout()).toMatch(new RegExp(`^older copy .*${key}$`, 'm'));
    expect(place.keys()).toEqual(expect.arrayContaining([...replaced]));
  };

  it('in one attempt is all that is gathered, and comes back to the next one', async () => {
    const first = run(`${before}; ${FLUSH}; ${after}; exit 85`);
    expect(await first.status, first.stderr()).toBe(75);
    expect(first.stderr()).toContain('cannot stand beside');
    place.freshWork();
    const second = run('find out -type f | sort');
    expect(await second.status, second.stderr()).toBe(0);
    expect(second.stdout().trim().split('\n')).toEqual(expected);
    await isWhole();
  });

  it('in a later attempt, too', async () => {
    expect(await run(`${before}; exit 85`).status).toBe(75);
    place.freshWork();
    const second = run(`${after}; exit 85`);
    expect(await second.status, second.stderr()).toBe(75);
    place.freshWork();
    const third = run('find out -type f | sort');
    expect(await third.status, third.stderr()).toBe(0);
    expect(third.stdout().trim().split('\n')).toEqual(expected);
    await isWhole();
  });

  it('and what it was before, with the same bytes, is stored as that', async () => {
    const first = run(`${after}; ${FLUSH}; ${before}; ${FLUSH}; ${after}`);
    expect(await first.status, first.stderr()).toBe(0);
    await isWhole();
  });
});
