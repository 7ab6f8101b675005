// Runs the built bin/capture as a user does, in a work directory and a store of its own.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import zlib from 'node:zlib';
import { decompress } from 'zstd-napi';
import { errnoOf } from '../../src/model/errors.ts';
import { parseRecord, type CaptureRecord } from '../../src/model/format/records.ts';
import type { EventName } from '../../src/model/format/message-fields.ts';
import { told } from '../support/messages.ts';
import { removeWritten } from '../support/remove-written.ts';
import { readFound } from './store-files.ts';

export const BIN = fileURLToPath(new URL('../../bin/capture', import.meta.url));
const FIXTURES = fileURLToPath(new URL('fixtures/', import.meta.url));

/** Path of a tiny program named for what it does. */
export const program = (name: string): string => `${FIXTURES}${name}`;

export interface Run {
  readonly child: ChildProcess;
  readonly pid: number;
  /** As a shell has it: 128+N for a signal. */
  readonly status: Promise<number>;
  stdout(): string;
  stderr(): string;
  /** Resolves when stderr or stdout contains the text; rejects when the process ends without it. */
  says(text: string | RegExp): Promise<void>;
  /** Resolves when it has told the event so often; needs {@link TELL_ALL}. Rejects when it ends before. */
  tells(event: EventName, times?: number): Promise<void>;
}

export interface Place {
  readonly dir: string;
  readonly work: string;
  readonly store: string;
  /** A path in the work directory. */
  at(name: string): string;
  /** A new, empty work directory: the next attempt's machine. */
  freshWork(): void;
  run(options: readonly string[], task: readonly string[], env?: NodeJS.ProcessEnv): Run;
  /** Any command line, not only a run. */
  capture(args: readonly string[], env?: NodeJS.ProcessEnv): Run;
  /** Any command, in the work directory; {@link BIN} is capture's. */
  exec(command: readonly string[], env?: NodeJS.ProcessEnv): Run;
  /** Keys of stored objects, without records. */
  keys(): readonly string[];
  /** Uncompressed bytes of a stored object. */
  stored(key: string): Buffer;
  text(key: string): string;
  /** All records, in the order of time. */
  records(): readonly { readonly name: string; readonly record: CaptureRecord }[];
  close(): void;
}

export interface PlaceOptions {
  /** Where to make it; tests that need speed or memory ask for /dev/shm. */
  readonly below?: string;
  /** Permissions of files count, also for root. */
  readonly unprivileged?: boolean;
}

export function openPlace({ below = os.tmpdir(), unprivileged = false }: PlaceOptions = {}): Place {
  const dir = fs.mkdtempSync(path.join(below, 'capture-e2e-'));
  const store = path.join(dir, 'store');
  const running = new Set<ChildProcess>();
  let count = 0;
  let work = '';
  const freshWork = (): void => {
    count += 1;
    work = path.join(dir, `work-${count}`);
    fs.mkdirSync(work);
  };
  freshWork();
  const exec = (command: readonly string[], env: NodeJS.ProcessEnv = {}): Run => {
    const run = start(unprivileged ? withoutPower(command) : command, work, env);
    running.add(run.child);
    run.child.once('close', () => running.delete(run.child));
    return run;
  };
  const capture = (args: readonly string[], env?: NodeJS.ProcessEnv): Run => exec([BIN, ...args], env);
  const isRecord = (key: string): boolean => key.startsWith('.capture/');
  return {
    dir,
    get work() {
      return work;
    },
    store,
    at: (name) => path.join(work, name),
    freshWork,
    exec,
    capture,
    run: (options, task, env) => capture(['--to', store, ...options, '--', ...task], env),
    keys: () => readFound(store).filter((key) => !isRecord(key)),
    stored: (key) => storedBytes(store, key),
    text: (key) => storedBytes(store, key).toString('utf8'),
    records: () =>
      readFound(store)
        .filter((key) => isRecord(key) && !key.startsWith('.capture/~') && !key.endsWith('.list.json'))
        .flatMap((key) => {
          const record = recordOf(path.join(store, key));
          return record === undefined ? [] : [{ name: path.basename(key, '.json'), record }];
        }),
    close: () => {
      for (const { pid } of running) if (pid !== undefined) killTree(pid);
      removeWritten(dir);
    },
  };
}

/** Root may read and write everything: its processes must be started without that capability. */
function withoutPower(command: readonly string[]): readonly string[] {
  if (process.getuid?.() !== 0) return command;
  return ['setpriv', '--bounding-set=-dac_override,-dac_read_search', ...command];
}

function start([command = '', ...args]: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Run {
  const child = spawn(command, args, {
    cwd,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...cleanEnv(), ...env },
  });
  const output = { stdout: '', stderr: '' };
  const listeners = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
      for (const listener of listeners) listener();
    });
  }
  const status = once(child, 'close').then(([code, signal]: unknown[]) =>
    typeof code === 'number' ? code : 128 + (os.constants.signals[signal as NodeJS.Signals] ?? 0),
  );
  return {
    child,
    pid: child.pid ?? -1,
    status,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    says: (text) =>
      heard(`saying ${String(text)}`, () =>
        typeof text === 'string'
          ? (output.stderr + output.stdout).includes(text)
          : text.test(output.stderr + output.stdout),
      ),
    tells: (event, times = 1) =>
      heard(`telling ${event} ${times} times`, () => told(output.stderr, event).length >= times),
  };
  async function heard(what: string, found: () => boolean): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const look = (): void => {
        if (!found()) return;
        listeners.delete(look);
        resolve();
      };
      listeners.add(look);
      look();
      status.then(
        () => (found() ? resolve() : reject(new Error(`ended without ${what}:\n${output.stderr}`))),
        reject,
      );
    });
  }
}

/** Nothing of the machine's own scheduler or capture settings may reach a test. */
function cleanEnv(): NodeJS.ProcessEnv {
  const { PATH, HOME, LANG, TMPDIR } = process.env;
  return { PATH, HOME, LANG, TMPDIR };
}

function storedBytes(store: string, key: string): Buffer {
  const bytes = fs.readFileSync(path.join(store, key));
  return key.endsWith('.zst') ? Buffer.from(decompress(bytes)) : bytes;
}

/** Undefined when the run that is still going on has pruned it since it was listed. */
function recordOf(file: string): CaptureRecord | undefined {
  let text: string;
  try {
    text = fs.readFileSync(file, 'utf8');
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    throw error;
  }
  const record = parseRecord(text);
  if ('invalid' in record) throw new Error(`${file}: ${record.invalid}`);
  return record;
}

/** Resolves when `condition` holds; fails loudly when it does not within the bound. */
export async function until(condition: () => boolean, what: string, boundMs = 30_000): Promise<void> {
  const deadline = Date.now() + boundMs;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** True while the process exists and is no zombie. */
export function isAlive(pid: number): boolean {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    return !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
  } catch {
    return false;
  }
}

/** The sidecar of a launcher: its child that runs dist/sidecar.cjs. */
export function sidecarOf(launcher: number): number | undefined {
  return childrenOf(launcher).find((pid) => {
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('sidecar.cjs');
    } catch {
      return false;
    }
  });
}

export function childrenOf(pid: number): readonly number[] {
  try {
    return fs
      .readdirSync(`/proc/${pid}/task`)
      .flatMap((task) => fs.readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' '))
      .filter((child) => child !== '')
      .map(Number);
  } catch {
    return [];
  }
}

/** SIGKILL to a process and everything below it, as when the machine is gone. */
export function killTree(pid: number): void {
  const children = childrenOf(pid);
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended by itself.
  }
  for (const child of children) killTree(child);
}

/** Bytes that do not compress and differ by seed. */
export function noise(sizeBytes: number, seed: number): Buffer {
  const block = zlib.deflateRawSync(Buffer.from(`noise ${seed}`));
  const out = Buffer.alloc(sizeBytes);
  let state = seed * 2_654_435_761 + block.length;
  for (let at = 0; at + 4 <= sizeBytes; at += 4) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    out.writeUInt32LE((state ^ (state >>> 13)) >>> 0, at);
  }
  return out;
}
