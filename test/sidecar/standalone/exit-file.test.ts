// When the word of the task is whole. The clock is the test's; the file is real.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { clockMs } from '../../../src/native/clock.ts';
import { openExitFile, type ExitFile } from '../../../src/sidecar/standalone/exit-file.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

let dir: TestDir;
let exitFile: ExitFile;
let file: string;
let said: string[];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  dir = testDir();
  file = `${dir.path}/status`;
  said = [];
  exitFile = openExitFile(file, (message) => said.push(message));
});
afterEach(() => {
  exitFile.close();
  vi.useRealTimers();
  dir.remove();
});

describe('an exit file', () => {
  it('that is empty does not count, however old it is', () => {
    fs.writeFileSync(file, '');
    expect(exitFile.look()).toBe(false);
    vi.advanceTimersByTime(60_000);
    expect(exitFile.look()).toBe(false);
  });

  it('with a complete line counts at once', async () => {
    fs.writeFileSync(file, '7\n');
    expect(exitFile.look()).toBe(true);
    expect(await exitFile.said).toMatchObject({ status: { code: 7, reason: undefined } });
  });

  it('without the end of the line counts when it is half a second old', async () => {
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

  it('is also found if the kernel reports no event', async () => {
    fs.writeFileSync(file, '0\n');
    vi.advanceTimersByTime(5000);
    expect(await exitFile.said).toMatchObject({ status: { code: 0, reason: undefined } });
  });

  it('counts from its writing, not from its discovery', async () => {
    fs.writeFileSync(file, '143\n');
    const agoMs = 3_600_000;
    const at = (Date.now() - agoMs) / 1000;
    fs.utimesSync(file, at, at);
    vi.advanceTimersByTime(5000);
    expect((await exitFile.said).status.atMs).toBeLessThanOrEqual(clockMs() - agoMs);
  });

  it('is never dated in the future, whatever the clock of its file system', async () => {
    fs.writeFileSync(file, '143\n');
    fs.utimesSync(file, 1e10, 1e10);
    expect(exitFile.look()).toBe(true);
    expect((await exitFile.said).status.atMs).toBeLessThanOrEqual(clockMs());
  });

  it.skipIf(process.getuid?.() !== 0)(
    'of another user is none in a directory where everybody may create files, such as /tmp: that is said once',
    async () => {
      fs.chmodSync(dir.path, 0o1777);
      const strangers = [() => fs.writeFileSync(file, '0\n'), () => fs.symlinkSync('/etc/hostname', file)];
      for (const make of strangers) {
        make();
        fs.lchownSync(file, 65_534, 65_534);
        expect(exitFile.look()).toBe(false);
        expect(exitFile.isThere()).toBe(false);
        fs.unlinkSync(file);
      }
      expect(said).toEqual([expect.stringMatching(/does not count: user 65534 has made it/)]);
      fs.writeFileSync(file, '3\n');
      expect(exitFile.look()).toBe(true);
      expect(await exitFile.said).toMatchObject({ status: { code: 3 } });
    },
  );

  it.skipIf(process.getuid?.() !== 0)('of the task’s container may belong to another user', async () => {
    fs.chmodSync(dir.path, 0o777);
    fs.writeFileSync(file, '3\n');
    fs.chownSync(file, 65_534, 65_534);
    expect(exitFile.look()).toBe(true);
    expect(await exitFile.said).toMatchObject({ status: { code: 3 } });
  });
});
