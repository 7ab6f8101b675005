// Proves that a reader works before anything relies on it: closes a file in a directory of our own, whose event must
// arrive through the event loop. Leaves neither file nor watch behind.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { errnoOf } from '../model/errors.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import { makePrivateDir } from '../native/private-dir.ts';
import { removeTree } from '../native/remove-tree.ts';
import { parseEvents } from './event-bytes.ts';
import { IN, type Reader } from './inotify.ts';
import type { SpareInstance } from './spare-instance.ts';
import type { WatchSystem } from './watching.ts';

/** A working reader answers within 1 ms. It takes this long only if the machine stalls. */
const ANSWER_WITHIN_MS = 2000;
const PROBE = 'closed';

/** The first reader of this system that passes the test. If no inotify instance is left, it borrows a shared one. */
export async function openTestedReader(
  { readers, calls }: WatchSystem,
  root: string,
  spare?: SpareInstance,
): Promise<Reader> {
  const entered = await spare?.enter();
  try {
    for (const reader of readers) {
      const open = (): Reader => reader(calls);
      // oxlint-disable-next-line no-await-in-loop -- the next one only when this one failed
      const tested = await testReader(openOrBorrow(open, spare), root);
      if (tested === undefined) continue;
      spare?.keep(open);
      return tested;
    }
  } finally {
    entered?.leave();
  }
  throw new Error('a file was closed, and inotify told nothing of it');
}

function openOrBorrow(open: () => Reader, spare: SpareInstance | undefined): Reader {
  try {
    return open();
  } catch (error) {
    const borrowed = errnoOf(error) === 'EMFILE' ? spare?.borrow() : undefined;
    if (borrowed === undefined) throw error;
    return borrowed;
  }
}

/** Undefined, with the reader closed, if no event arrived. */
async function testReader(reader: Reader, root: string): Promise<Reader | undefined> {
  let passed = false;
  try {
    passed = await hearsClose(reader, makeProbeDirectory(root));
  } finally {
    if (!passed) await reader.close();
  }
  return passed ? reader : undefined;
}

async function hearsClose(reader: Reader, probe: string): Promise<boolean> {
  try {
    const watch = reader.watch(probe, IN.closeWrite);
    const heard = new Promise<true>((resolve) => {
      reader.listen((bytes, length) =>
        parseEvents(bytes, length, (from, mask) => {
          if (from === watch && (mask & IN.closeWrite) !== 0) resolve(true);
        }),
      );
    });
    fs.closeSync(fs.openSync(path.join(probe, PROBE), 'r+'));
    const inTime = await isTrueInTime(heard);
    reader.unwatch(watch);
    return inTime;
  } finally {
    reader.listen(() => undefined);
    await removeTree(probe);
  }
}

/**
 * On the watched file system if we may write there and it has room, because not all file systems report closes. Creates
 * the file that the test closes.
 */
function makeProbeDirectory(root: string): string {
  try {
    makePrivateDir(path.join(root, OWN_DIR));
    return withFile(fs.mkdtempSync(path.join(root, OWN_DIR, 'probe-')));
  } catch {
    return withFile(fs.mkdtempSync(path.join(os.tmpdir(), 'capture-probe-')));
  }
}

function withFile(probe: string): string {
  try {
    fs.writeFileSync(path.join(probe, PROBE), '');
    return probe;
  } catch (error) {
    fs.rmdirSync(probe);
    throw error;
  }
}

/**
 * If the loop was blocked for longer than the limit, the timer fires first: an event that is ready may still arrive.
 */
async function isTrueInTime(heard: Promise<true>): Promise<boolean> {
  const cancel = new AbortController();
  const late = async (): Promise<false> => {
    try {
      await setTimeout(ANSWER_WITHIN_MS, undefined, { signal: cancel.signal });
      await setImmediate();
      await setImmediate();
    } catch (error) {
      if (!cancel.signal.aborted) throw error;
    }
    return false;
  };
  const answer = await Promise.race([heard, late()]);
  cancel.abort();
  return answer;
}
