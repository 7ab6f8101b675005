// Questions to file servers that may not answer: each in a thread, and never more threads than other work can spare.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { newDeferred } from '../../src/model/waiting.ts';
import { entriesLater, FileServers, NoAnswer } from '../../src/native/file-servers.ts';
import type { Mount } from '../../src/native/mounts.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir('/var/tmp');
});
afterEach(() => dir.remove());

const server = (name: string): Mount => ({
  id: name,
  root: '/',
  point: `/${name}`,
  device: name,
  type: 'nfs4',
  options: [],
});

/** Not answered before the test ends. */
function hanging(): () => Promise<string> {
  const { promise, resolve } = newDeferred<string>();
  onTestFinished(() => resolve(''));
  return () => promise;
}

describe('a question', () => {
  it('to a server that has answered none is not asked, until it answers', async () => {
    const servers = new FileServers(dir, 1);
    const first = newDeferred<string>();
    const asked = vi.fn<() => Promise<string>>(() => Promise.resolve('second'));
    await expect(servers.ask(server('a'), () => first.promise)).rejects.toThrow(NoAnswer);
    await expect(servers.ask(server('a'), asked)).rejects.toThrow('/a has not answered within 1 ms');
    expect(asked).not.toHaveBeenCalled();
    first.resolve('late');
    await vi.waitFor(async () => expect(await servers.ask(server('a'), asked)).toBe('second'));
  });

  it('waits while the same server answers another one', async () => {
    const servers = new FileServers(dir);
    const first = newDeferred<string>();
    const asked = vi.fn<() => Promise<string>>(() => Promise.resolve('second'));
    const answers = Promise.all([
      servers.ask(server('a'), () => first.promise),
      servers.ask(server('a'), asked),
    ]);
    await Promise.resolve();
    expect(asked).not.toHaveBeenCalled();
    first.resolve('first');
    expect(await answers).toEqual(['first', 'second']);
  });

  it('to a third server is not asked while two do not answer: their threads are not free', async () => {
    const servers = new FileServers(dir, 1);
    for (const name of ['a', 'b'])
      await expect(servers.ask(server(name), hanging())).rejects.toThrow(NoAnswer);
    const asked = vi.fn<() => Promise<string>>(() => Promise.resolve(''));
    await expect(servers.ask(server('c'), asked)).rejects.toThrow(NoAnswer);
    expect(asked).not.toHaveBeenCalled();
  });

  it('that fails, fails with its reason', async () => {
    const failing = (): Promise<never> => Promise.reject(new Error('EIO'));
    await expect(new FileServers(dir).ask(server('a'), failing)).rejects.toThrow('EIO');
  });
});

describe('the entries of a directory', () => {
  const kinds = async (most = 10): Promise<readonly string[]> =>
    (await entriesLater(dir.path, most)).map(
      (one) => `${one.name} ${one.isFile()} ${one.isDirectory()} ${one.isSymbolicLink()}`,
    );
  beforeEach(() => {
    fs.writeFileSync(Buffer.from(`${dir.path}/\xFF`, 'latin1'), '');
    fs.mkdirSync(`${dir.path}/d`);
    fs.symlinkSync('d', `${dir.path}/l`);
  });
  const all = ['\uDCFF true false false', 'd false true false', 'l false false true'];

  it('are told, with names that are not UTF-8, and no more than wanted', async () => {
    expect([...(await kinds())].toSorted()).toEqual(all.toSorted());
    expect(await kinds(2)).toHaveLength(2);
  });

  it('are told without a call in this thread where the server tells no types (DT_UNKNOWN)', async () => {
    const internals = fs.Dir.prototype as unknown as {
      processReadResult(path: unknown, names: readonly unknown[]): void;
    };
    const read = internals.processReadResult;
    // Each name is followed by its type; 0: unknown.
    const untold = vi.spyOn(internals, 'processReadResult').mockImplementation(function (
      this: unknown,
      path,
      names,
    ) {
      read.call(
        this,
        path,
        names.map((one, at) => (at % 2 === 1 ? 0 : one)),
      );
    });
    const looked = vi.spyOn(fs, 'lstatSync');
    onTestFinished(() => [untold, looked].forEach((spy) => spy.mockRestore()));
    expect([...(await kinds())].toSorted()).toEqual(all.toSorted());
    expect(untold).toHaveBeenCalled();
    expect(looked).not.toHaveBeenCalled();
  });
});
