// The small parts of the watcher, each by itself.
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { encodePath } from '../../src/model/path.ts';
import { IN, parseEvents } from '../../src/watch/inotify.ts';
import { openPasses, type PassKind } from '../../src/watch/passes.ts';
import { openSeen } from '../../src/watch/seen.ts';

describe('parseEvents', () => {
  it('reads each event of a buffer, names as the kernel padded them', () => {
    const bytes = Buffer.alloc(96);
    const words = new Uint32Array(bytes.buffer, bytes.byteOffset);
    words.set([7, IN.closeWrite, 0, 16]);
    bytes.write('r.dat', 16);
    words.set([0xffffffff, IN.queueOverflow, 0, 0], 8);
    words.set([8, IN.movedTo | IN.isDir, 99, 32], 12);
    bytes.write('sixteen-letters!é', 64);
    const events: unknown[] = [];
    parseEvents(bytes, 96, (...event) => events.push(event));
    expect(events).toEqual([
      [7, IN.closeWrite, 0, 'r.dat'],
      [-1, IN.queueOverflow, 0, ''],
      [8, IN.movedTo | IN.isDir, 99, 'sixteen-letters!é'],
    ]);
  });

  it('loses no byte of a name that is not UTF-8', () => {
    const bytes = Buffer.alloc(32);
    new Uint32Array(bytes.buffer, bytes.byteOffset).set([1, IN.create, 0, 16]);
    bytes.set([0x61, 0xff, 0xc3, 0x28], 16);
    const names: string[] = [];
    parseEvents(bytes, 32, (_watch, _mask, _cookie, name) => names.push(name));
    expect(encodePath(names[0] ?? '')).toEqual(Buffer.of(0x61, 0xff, 0xc3, 0x28));
  });
});

describe('seen', () => {
  const facts = { dev: '1', ino: '2', size: 3, mtimeNs: '4', ctimeNs: '5' };

  it.each(['dev', 'ino', 'size', 'mtimeNs', 'ctimeNs'])(
    'knows a file as new when its %s differs',
    (field) => {
      const seen = openSeen();
      seen.note('r.dat', facts);
      expect(seen.isNew('r.dat', facts)).toBe(false);
      expect(seen.isNew('r.dat', { ...facts, [field]: field === 'size' ? 9 : '9' })).toBe(true);
    },
  );

  it('forgets a file that a whole walk has not met', () => {
    const seen = openSeen();
    seen.note('r.dat', facts);
    seen.forgetGone();
    expect(seen.isNew('r.dat', facts)).toBe(false);
    seen.forgetGone();
    seen.forgetGone();
    expect(seen.isNew('r.dat', facts)).toBe(true);
  });
});

describe('passes', () => {
  it('run one at a time, and once more for all requests that came meanwhile', async () => {
    const runs: PassKind[] = [];
    let under = 0;
    const passes = openPasses(async (kind) => {
      under += 1;
      expect(under).toBe(1);
      runs.push(kind);
      if (runs.length === 1) for (let n = 0; n < 5; n += 1) passes.request('all');
      await Promise.resolve();
      under -= 1;
    });
    passes.request('all');
    await pause(0);
    expect(runs).toEqual(['all', 'all']);
    await passes.close();
  });

  it('stop at close, in the middle of one and between two', async () => {
    let runs = 0;
    const passes = openPasses(async (_kind, signal) => {
      runs += 1;
      await pause(3_600_000, undefined, { signal });
    });
    passes.repeat(3_600_000);
    passes.request('all');
    await pause(0);
    await passes.close();
    passes.request('all');
    await passes.close();
    expect(runs).toBe(1);
  });
});
