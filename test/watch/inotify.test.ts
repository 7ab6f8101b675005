// The bytes of the kernel, as events, and how they come.
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { encodePath } from '../../src/model/path.ts';
import { parseEvents } from '../../src/watch/event-bytes.ts';
import { IN, libcInotify, openEpollReader } from '../../src/watch/inotify.ts';
import { freshDirectory } from './support.ts';

it('reads closes that follow one another together', async () => {
  const FILES = 100;
  const dir = freshDirectory();
  const reader = openEpollReader(libcInotify);
  onTestFinished(() => reader.close());
  let wakeUps = 0;
  let closes = 0;
  reader.listen((bytes, length) => {
    wakeUps += 1;
    parseEvents(bytes, length, () => (closes += 1));
  });
  reader.watch(dir, IN.closeWrite);
  for (let n = 0; n < FILES; n += 1) {
    fs.writeFileSync(`${dir}/f${n}`, 'x');
    // The loop would read each one here.
    await setImmediate();
    await setImmediate();
  }
  await vi.waitUntil(() => closes === FILES, 10_000);
  expect(wakeUps).toBeLessThan(FILES / 2);
});

describe('parseEvents', () => {
  it('reads each event of a buffer, with names as the kernel pads them', () => {
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

  it('keeps every byte of a name that is not UTF-8', () => {
    const bytes = Buffer.alloc(32);
    new Uint32Array(bytes.buffer, bytes.byteOffset).set([1, IN.create, 0, 16]);
    bytes.set([0x61, 0xff, 0xc3, 0x28], 16);
    const names: string[] = [];
    parseEvents(bytes, 32, (_watch, _mask, _cookie, name) => names.push(name));
    expect(encodePath(names[0] ?? '')).toEqual(Buffer.of(0x61, 0xff, 0xc3, 0x28));
  });
});
