// A watcher on a fresh directory, and what it told. Everything is removed when the test has ended.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { ClosedEvent, Interest } from '../../src/model/file/file-state.ts';
import { libcFunction } from '../../src/native/libc.ts';
import type { LinkInterest } from '../../src/watch/behind-links.ts';
import type { FoundFile } from '../../src/watch/scan.ts';
import type { SpareInstance } from '../../src/watch/spare-instance.ts';
import { openWatcher, thisSystem } from '../../src/watch/watcher.ts';
import type { Watcher, WatchSystem } from '../../src/watch/watching.ts';
import type { Witness } from '../../src/watch/witness.ts';

// The lease probe may cause one, and its default action ends the process.
process.on('SIGIO', () => undefined);

export const EVERYTHING: Interest = {
  wants: () => true,
  canHold: (dir) => dir !== '.capture' && !dir.startsWith('.capture/'),
};

export interface Watched {
  readonly dir: string;
  readonly watcher: Watcher;
  readonly events: readonly ClosedEvent[];
  readonly warnings: readonly string[];
  overflows(): number;
  /** `how path` of what was told since the last call, after a drain. */
  drained(): string[];
  /** Resolves when the loop, without any drain, has brought an event for which `is` is true. */
  heard(is: (event: ClosedEvent) => boolean): Promise<ClosedEvent>;
  /** Resolves when `isSo` is true after some event. */
  until(isSo: () => boolean): Promise<void>;
}

export interface WatchedOptions {
  readonly dir?: string;
  readonly interest?: Interest;
  readonly linkInterest?: LinkInterest;
  readonly rescanMs?: number;
  readonly system?: Partial<WatchSystem>;
  readonly spare?: SpareInstance;
  readonly onClosed?: (event: ClosedEvent, watcher: Watcher) => void;
  readonly witness?: Pick<Witness, 'judge' | 'nextMs' | 'whenDue'> | undefined;
}

/** An empty directory: in memory where there is such a place, for the sake of 200,000 files. */
export function freshDirectory(): string {
  const parent = fs.existsSync('/dev/shm') ? '/dev/shm' : fs.realpathSync('/tmp');
  const dir = fs.mkdtempSync(path.join(parent, 'capture-watch-'));
  onTestFinished(() => fs.rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export async function watched(options: WatchedOptions = {}): Promise<Watched> {
  const dir = options.dir ?? freshDirectory();
  const fd = fs.openSync(dir, 'r');
  const events: ClosedEvent[] = [];
  const warnings: string[] = [];
  const waiters = new Set<() => void>();
  let overflows = 0;
  let reported = 0;
  const watcher: Watcher = await openWatcher(
    {
      root: { fd, path: dir },
      interest: options.interest ?? EVERYTHING,
      onClosed: (event) => {
        events.push(event);
        options.onClosed?.(event, watcher);
        for (const look of waiters) look();
      },
      onOverflow: () => {
        overflows += 1;
      },
      onWarning: (message, hint) => warnings.push(`${message} (try: ${hint})`),
      rescanMs: options.rescanMs ?? 3_600_000,
      linkInterest: options.linkInterest,
      spare: options.spare,
      witness: options.witness,
    },
    { ...thisSystem, ...options.system },
  );
  onTestFinished(async () => {
    await watcher.close();
    fs.closeSync(fd);
  });
  const until = (isSo: () => boolean): Promise<void> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (!isSo()) return;
        waiters.delete(look);
        resolve();
      };
      waiters.add(look);
      look();
    });
  return {
    dir,
    watcher,
    events,
    warnings,
    overflows: () => overflows,
    drained: () => {
      watcher.drainNow();
      const fresh = events.slice(reported).map((event) => `${event.how} ${event.path}`);
      reported = events.length;
      return fresh;
    },
    heard: async (is) => {
      await until(() => events.some(is));
      const event = events.find(is);
      if (event === undefined) throw new Error('the event that was heard is gone');
      return event;
    },
    until,
  };
}

/** Runs one of the tiny programs in fixtures/; it is killed when the test ends before it. */
export function startFixture(name: string, ...args: readonly string[]): ChildProcess {
  const program = path.join(import.meta.dirname, 'fixtures', `${name}.mjs`);
  const child = spawn(process.execPath, [program, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

/** Resolves when the program has ended well. */
export async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null) await once(child, 'exit');
  if (child.exitCode !== 0) throw new Error(`the fixture ended with ${child.exitCode}`);
}

export async function runFixture(name: string, ...args: readonly string[]): Promise<void> {
  await ended(startFixture(name, ...args));
}

const O_TMPFILE = 0o20200000;
const AT_FDCWD = -100;
const AT_SYMLINK_FOLLOW = 0x400;
const linkat = libcFunction<[number, string, number, string, number]>(
  'int linkat(int, const char*, int, const char*, int)',
);

/** A file without a name (open(2), O_TMPFILE). */
export function openNameless(dir: string, text: string): number {
  const fd = fs.openSync(dir, fs.constants.O_RDWR | O_TMPFILE, 0o644);
  fs.writeSync(fd, text);
  return fd;
}

/** Gives it one, while it is open. */
export function linkNameless(fd: number, to: string): void {
  const from = `/proc/self/fd/${fd}`;
  if (linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW) !== 0) throw new Error(`cannot link to ${to}`);
}

/** All that a scan finds. */
export async function everything(watcher: Pick<Watcher, 'scan'>): Promise<readonly FoundFile[]> {
  const all: FoundFile[] = [];
  for await (const found of watcher.scan()) all.push(...found);
  return all;
}
