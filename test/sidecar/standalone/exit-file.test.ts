// When the word of the task is whole. The clock is the test's; the file is real.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { clockMs } from '../../../src/native/clock.ts';
import { openExitFile, type ExitFile } from '../../../src/sidecar/standalone/exit-file.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

let dir: TestDir;
let exitFile: ExitFile;
let file: string;
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  dir = testDir();
  file = `${dir.path}/status`;
  exitFile = openExitFile(file);
});
afterEach(() => {
  exitFile.close();
  vi.useRealTimers();
  dir.remove();
});

describe('an exit file', () => {
  it('that is empty says nothing, however long it stands', () => {
    fs.writeFileSync(file, '');
    expect(exitFile.look()).toBe(false);
    vi.advanceTimersByTime(60_000);
    expect(exitFile.look()).toBe(false);
  });

  it('with the end of its line counts at once', async () => {
    fs.writeFileSync(file, '7\n');
    expect(exitFile.look()).toBe(true);
    expect(await exitFile.said).toMatchObject({ status: { code: 7, reason: undefined } });
  });

  it('without one counts when it has stood for half a second', async () => {
    fs.writeFileSync(file, '14');
    expect(exitFile.look()).toBe(false);
    vi.advanceTimersByTime(400);
    expect(exitFile.look()).toBe(false);
    fs.appendFileSync(file, '3');
    vi.advanceTimersByTime(200);
    expect(exitFile.look()).toBe(false);
    vi.advanceTimersByTime(1100);
    expect(exitFile.look()).toBe(true);
    expect(await exitFile.said).toMatchObject({ status: { code: 143, reason: undefined } });
  });

  it('is found also where the kernel tells nothing of it', async () => {
    fs.writeFileSync(file, '0\n');
    vi.advanceTimersByTime(5000);
    expect(await exitFile.said).toMatchObject({ status: { code: 0, reason: undefined } });
  });

  it('says when it was written, and not when it was found', async () => {
    fs.writeFileSync(file, '143\n');
    const agoMs = 3_600_000;
    const at = (Date.now() - agoMs) / 1000;
    fs.utimesSync(file, at, at);
    vi.advanceTimersByTime(5000);
    expect((await exitFile.said).status.atMs).toBeLessThanOrEqual(clockMs() - agoMs);
  });

  it('is never of the future, whatever clock its file system has', async () => {
    fs.writeFileSync(file, '143\n');
    fs.utimesSync(file, 1e10, 1e10);
    expect(exitFile.look()).toBe(true);
    expect((await exitFile.said).status.atMs).toBeLessThanOrEqual(clockMs());
  });

  it.skipIf(process.getuid?.() !== 0)(
    'of another user is not believed where everybody may put names, as in /tmp',
    async () => {
      fs.chmodSync(dir.path, 0o1777);
      fs.writeFileSync(file, '0\n');
      fs.chownSync(file, 65_534, 65_534);
      expect(exitFile.look()).toBe(true);
      expect(await exitFile.said).toMatchObject({
        status: { code: 64, reason: expect.stringContaining('user 65534') as unknown },
      });
    },
  );

  it.skipIf(process.getuid?.() !== 0)('of the container of the task may have another user', async () => {
    fs.chmodSync(dir.path, 0o777);
    fs.writeFileSync(file, '3\n');
    fs.chownSync(file, 65_534, 65_534);
    expect(exitFile.look()).toBe(true);
    expect(await exitFile.said).toMatchObject({ status: { code: 3 } });
  });
});
