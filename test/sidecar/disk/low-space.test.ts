// That space runs out is said in time. The time is the test's: no clock runs.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type DiskUse, diskUseOf } from '../../../src/native/disk-use.ts';
import { LowSpace } from '../../../src/sidecar/disk/low-space.ts';

const MIB = 2 ** 20;

describe('a work directory that is nearly full', () => {
  let said: { message: string; hint: unknown }[] = [];
  let use: DiskUse = { of: 'space', used: 0, limit: 1000 * 2 ** 20 };
  let looks = 0;
  let storedBytes = 0;
  let lowSpace: LowSpace;
  const silent = (): void => undefined;

  beforeEach(() => {
    vi.useFakeTimers();
    said = [];
    looks = 0;
    storedBytes = 3 * MIB;
    lowSpace = new LowSpace({
      dir: '/nowhere',
      reclaim: 'auto',
      held: () => ({ storedBytes, waitingBytes: MIB }),
      log: {
        debug: silent,
        info: silent,
        error: silent,
        ofAttempt: silent,
        draw: undefined,
        close: async () => undefined,
        warn: (message, fields) => void said.push({ message, hint: fields?.hint }),
      },
      uses: () => {
        looks += 1;
        return Promise.resolve([use]);
      },
    });
  });
  afterEach(() => {
    lowSpace.close();
    vi.useRealTimers();
  });

  async function filled(percent: number): Promise<void> {
    use = { of: 'space', used: percent * 10 * 2 ** 20, limit: 1000 * 2 ** 20 };
    lowSpace.changed();
    await vi.advanceTimersByTimeAsync(5000);
  }

  it('is reported once, with what takes the space and what to do', async () => {
    await filled(89);
    expect(said).toEqual([]);
    await filled(93);
    await filled(96);
    expect(said).toEqual([
      {
        message:
          'the file system of the work directory is 93 % used, 70.0 MiB left; results that are stored and ' +
          'still here hold 3.0 MiB, closed files that wait to be stored 1.0 MiB',
        hint: '--reclaim now deletes each result as soon as it is stored',
      },
    ]);
  });

  it('advises no deletion of stored results if there are none', async () => {
    storedBytes = 0;
    await filled(93);
    expect(said.map(({ hint }) => hint)).toEqual([
      'give the task a larger work directory, or let it write less at a time',
    ]);
  });

  it('is reported again if there was room in between', async () => {
    await filled(93);
    await filled(88);
    await filled(93);
    expect(said).toHaveLength(1);
    await filled(80);
    await filled(93);
    expect(said).toHaveLength(2);
  });

  it('is checked after events, seldom in a burst, and its last change is seen', async () => {
    for (let n = 0; n < 1000; n += 1) lowSpace.changed();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(looks).toBe(2);
    expect(vi.getTimerCount()).toBe(0);
  });
});

it('the use of a real directory has a limit that is not exceeded', async () => {
  const uses = await diskUseOf('/dev/shm');
  expect(uses.map(({ of }) => of)).toContain('space');
  for (const { used, limit } of uses) expect(used).toBeLessThanOrEqual(limit === 0 ? Infinity : limit);
});
