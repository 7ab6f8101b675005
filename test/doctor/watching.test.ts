// What the doctor says of inotify and leases: on this machine, and on one that has run out of them.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Finding } from '../../src/doctor/finding.ts';
import {
  examineWatching,
  inotifyUseHere,
  type InotifyUse,
  type Watching,
} from '../../src/doctor/watching.ts';
import { writerState } from '../../src/native/files.ts';
import { systemError } from '../../src/native/libc.ts';
import { libcInotify } from '../../src/watch/inotify.ts';
import { thisSystem } from '../../src/watch/watcher.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

// The lease that is tried may send it.
process.on('SIGIO', () => undefined);

const PLENTY: InotifyUse = { instances: 3, mostInstances: 1024, watches: 20, mostWatches: 100_000 };
const HERE: Watching = { system: thisSystem, inotifyUse: () => PLENTY, writerOf: writerState };

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(() => dir.remove());

async function findings(watching: Partial<Watching> = {}): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for await (const one of examineWatching(dir.path, { ...HERE, ...watching })) found.push(one);
  return found;
}

const short = (call: 'open' | 'add', code: string): Watching['system'] => ({
  ...thisSystem,
  calls: {
    ...libcInotify,
    [call]: () => {
      throw systemError('inotify', code);
    },
  },
});

describe('inotify', () => {
  it('and leases work in a directory of this machine', async () => {
    expect((await findings()).map(({ check, level }) => [check, level])).toEqual([
      ['inotify', 'ok'],
      ['leases', 'ok'],
    ]);
  });

  it.each([
    ['open', 'EMFILE', 'max_user_instances'],
    ['add', 'ENOSPC', 'max_user_watches'],
  ] as const)('is a warning where %s gives %s, and says which limit to raise', async (call, code, limit) => {
    const [found] = await findings({ system: short(call, code) });
    expect(found).toMatchObject({ check: 'inotify', level: 'warn', facts: PLENTY });
    expect(found?.says).toContain(`cannot watch for closes: ${code}`);
    expect(found?.mend).toContain(limit);
  });

  it.each([
    [{ ...PLENTY, instances: 1024 }, 'max_user_instances'],
    [{ ...PLENTY, watches: 95_000 }, 'max_user_watches'],
  ])('is a warning where little is left: %j', async (use, limit) => {
    const [found] = await findings({ inotifyUse: () => use });
    expect(found).toMatchObject({ check: 'inotify', level: 'warn' });
    expect(found?.mend).toContain(limit);
  });

  it('is counted in processes', () => {
    const us = [process.pid];
    const before = inotifyUseHere(us);
    const fd = libcInotify.open();
    libcInotify.add(fd, dir.path, 0x8);
    libcInotify.add(fd, '/tmp', 0x8);
    const now = inotifyUseHere(us);
    libcInotify.close(fd);
    expect(now).toEqual({ ...before, instances: before.instances + 1, watches: before.watches + 2 });
    expect(before.mostInstances).toBeGreaterThan(0);
    expect(before.mostWatches).toBeGreaterThan(0);
    // Other processes may have more.
    expect(inotifyUseHere().instances).toBeGreaterThanOrEqual(before.instances);
  });
});

it('leases that do not work are a warning', async () => {
  const [, found] = await findings({ writerOf: () => 'unknown' });
  expect(found).toMatchObject({ check: 'leases', level: 'warn' });
});

describe('the work directory', () => {
  it('is as it was afterwards', async () => {
    await findings();
    expect(dir.names('.')).toEqual([]);
  });

  it('keeps what a run has in it', async () => {
    dir.write('.capture/lock', '');
    await findings({ system: short('open', 'EMFILE') });
    expect(fs.readdirSync(`${dir.path}/.capture`)).toEqual(['lock']);
  });
});
