// The file that is a notice, in real directories.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { testDir, type TestDir } from '../support/work-dir.ts';
import { closeAll, listenTo, until, type Listening } from './listening.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir();
});
afterEach(async () => {
  await closeAll();
  dir.remove();
});

/** With a pace that would never come round: only events tell. */
function listen(name: string): Listening {
  return listenTo({ kind: 'file', path: path.join(dir.path, name) }, { pace: { pollMs: 3_600_000 } });
}

/** Gives the source a turn: it may look before or after what follows, and must hear of it either way. */
async function aTurn(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe('the file source', () => {
  test('tells of a file that appears', async () => {
    const heard = listen('stop');
    await aTurn();
    dir.write('other', 'x');
    dir.write('stop', '');
    await until(() => expect(heard.told).toHaveLength(1));
    expect(heard.told[0]).toMatchObject({ source: 'file', kind: 'stop', atMs: undefined });
    expect(heard.told[0]?.what).toBe(`${dir.path}/stop is there: this machine is taken away`);
    expect(heard.said).toEqual([]);
  });

  test('tells of a file that is there already', async () => {
    dir.write('stop', '');
    const heard = listen('stop');
    await until(() => expect(heard.told).toHaveLength(1));
  });

  test('tells of a file that is renamed into place', async () => {
    const heard = listen('stop');
    await aTurn();
    fs.renameSync(dir.write('new', '2026-03-01T08:22:00Z\n'), path.join(dir.path, 'stop'));
    await until(() => expect(heard.told).toMatchObject([{ atMs: Date.UTC(2026, 2, 1, 8, 22) }]));
    expect(heard.told[0]?.what).toContain('taken away at 2026-03-01T08:22:00Z');
  });

  test('takes the word advice for advice, which ends nothing, until the file says more', async () => {
    dir.write('stop', 'advice\n');
    const heard = listen('stop');
    await until(() => expect(heard.told).toMatchObject([{ kind: 'advice', atMs: undefined }]));
    expect(heard.told[0]?.what).toBe(`${dir.path}/stop advises: this machine may be taken away`);
    fs.renameSync(dir.write('new', ''), path.join(dir.path, 'stop'));
    await until(() => expect(heard.told).toMatchObject([{ kind: 'advice' }, { kind: 'stop' }]));
    expect(heard.withdrawn).toMatchObject([{ kind: 'advice' }]);
  });

  test('waits for directories that are not there yet', async () => {
    const heard = listen('a/b/c/stop');
    await aTurn();
    fs.mkdirSync(path.join(dir.path, 'a'));
    await aTurn();
    fs.mkdirSync(path.join(dir.path, 'a/b/c'), { recursive: true });
    dir.write('a/b/c/stop', '');
    await until(() => expect(heard.told).toHaveLength(1));
  });

  test('goes on when its directory is removed and made again', async () => {
    fs.mkdirSync(path.join(dir.path, 'a'));
    const heard = listen('a/stop');
    await aTurn();
    for (let times = 1; times <= 3; times += 1) {
      fs.rmSync(path.join(dir.path, 'a'), { recursive: true });
      await aTurn();
      dir.write('a/stop', '');
      await until(() => expect(heard.told).toHaveLength(times));
      fs.unlinkSync(path.join(dir.path, 'a/stop'));
      await until(() => expect(heard.withdrawn).toHaveLength(times));
    }
  });

  test('withdraws the notice when the file is removed', async () => {
    const file = dir.write('stop', '');
    const heard = listen('stop');
    await until(() => expect(heard.told).toHaveLength(1));
    fs.unlinkSync(file);
    await until(() => expect(heard.withdrawn).toEqual(heard.told));
  });

  test('counts a duration from when the file was written', async () => {
    const file = dir.write('stop', '90s\n');
    fs.utimesSync(file, 1000, 1000);
    const heard = listen('stop');
    await until(() => expect(heard.told).toMatchObject([{ atMs: 1_090_000 }]));
  });

  test.each(['soon', '2026', '0x10', '9'.repeat(5000)])('takes %.8s for no instant', async (text) => {
    dir.write('stop', text);
    const heard = listen('stop');
    await until(() => expect(heard.told).toMatchObject([{ atMs: undefined }]));
  });

  test.each(['a pipe', 'a directory', 'a link to a file'])(
    'takes %s for a notice, and never hangs on it',
    async (what) => {
      const at = path.join(dir.path, 'stop');
      if (what === 'a directory') fs.mkdirSync(at);
      else if (what === 'a pipe') spawnSync('mkfifo', [at]);
      else fs.symlinkSync(dir.write('elsewhere', ''), at);
      const heard = listen('stop');
      await until(() => expect(heard.told).toMatchObject([{ atMs: undefined }]));
    },
  );

  test('tells nothing after it was closed', async () => {
    const heard = listen('stop');
    const other = listen('stop');
    await aTurn();
    heard.close();
    dir.write('stop', '');
    await until(() => expect(other.told).toHaveLength(1));
    expect(heard.told).toEqual([]);
    expect(heard.said).toEqual([]);
  });

  test('misses no directory that is made while it looks for the nearest one', async () => {
    const look = fs.statfsSync;
    const spy = vi.spyOn(fs, 'statfsSync').mockImplementationOnce(((at: string) => {
      try {
        return look(at);
      } finally {
        fs.mkdirSync(at);
      }
    }) as typeof fs.statfsSync);
    const heard = listen('a/stop');
    spy.mockRestore();
    await aTurn();
    dir.write('a/stop', '');
    await until(() => expect(heard.told).toHaveLength(1));
    fs.unlinkSync(path.join(dir.path, 'a/stop'));
    await until(() => expect(heard.withdrawn).toHaveLength(1));
  });

  test.skipIf(process.getuid?.() !== 0)(
    'does not believe another user where everybody may put names, and says so once',
    async () => {
      fs.chmodSync(dir.path, 0o1777);
      const heard = listen('stop');
      await aTurn();
      fs.chownSync(dir.write('new', '3s'), 65_534, 65_534);
      fs.renameSync(path.join(dir.path, 'new'), path.join(dir.path, 'stop'));
      await until(() => expect(heard.said).toEqual([expect.stringContaining('user 65534 has made it')]));
      expect(heard.told).toEqual([]);
      dir.write('new', '');
      fs.renameSync(path.join(dir.path, 'new'), path.join(dir.path, 'stop'));
      await until(() => expect(heard.told).toHaveLength(1));
      expect(heard.said).toHaveLength(1);
    },
  );

  test('watches nothing after it was closed', async () => {
    const spy = vi.spyOn(fs, 'watch');
    const heard = listen('stop');
    await aTurn();
    const [watcher] = spy.mock.results.map(({ value }) => value as fs.FSWatcher);
    spy.mockRestore();
    const isClosed = new Promise((resolve) => {
      watcher?.once('close', () => resolve('closed'));
    });
    heard.close();
    expect(await isClosed).toBe('closed');
  });
});
