// A command of capture as a process of its own, as a user would start it: with its own memory, signals and exit status, so
// that it keeps the same promises. What it says comes as events.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import { Socket } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setImmediate, setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { CaptureError, errnoOf, reasonOf } from '../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../model/exit-status.ts';
import type { EventName, MessageLine } from '../model/format/message-fields.ts';
import { errorOf } from './errors.ts';

/** Beside dist/, where this file is (build.mjs). */
const CAPTURE = fileURLToPath(new URL('../bin/capture', import.meta.url));

export interface CaptureOptions {
  /** Ends the command with SIGTERM. */
  readonly signal?: AbortSignal | undefined;
  /** Instead of `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** Instead of the current directory. */
  readonly cwd?: string | undefined;
  /** Events at debug come, too. */
  readonly debug?: boolean | undefined;
}

/** As in `stdio` of node:child_process; a number is an open file of this process. */
export type Stream = 'inherit' | 'ignore' | number;

/** A command line up to the `--`, and the task behind it. */
export interface Words {
  readonly options: readonly string[];
  readonly task?: readonly string[];
}

/** How a command ended, and its events about that. */
export interface Ended {
  /** As a shell has it: 128+N for a signal. */
  readonly status: ExitStatus;
  /** The events that say what became of it. */
  readonly told: readonly MessageLine[];
  /** It has failed, whether or not it could tell why. */
  readonly hasFailed: boolean;
  /** Lines on stderr that are no events: Node has not started. */
  readonly plain: readonly string[];
}

const KEPT: ReadonlySet<EventName> = new Set<EventName>(['mistake', 'refused', 'summary', 'end']);

class Told {
  readonly #told: MessageLine[] = [];
  readonly #plain: string[] = [];
  readonly #onEvent: (event: MessageLine) => void;
  isSilent = true;

  constructor(onEvent: (event: MessageLine) => void) {
    this.#onEvent = onEvent;
  }

  readonly add = (line: string): void => {
    const event = fromJson<MessageLine>(line);
    if (event === undefined) return void this.#plain.push(line);
    this.isSilent = false;
    if (KEPT.has(event.event)) this.#told.push(event);
    this.#onEvent(event);
  };

  ended(status: ExitStatus, hasFailed: boolean): Ended {
    return { status, told: this.#told, hasFailed, plain: this.#plain };
  }
}

interface Heard {
  readonly onEvent?: (event: MessageLine) => void;
  /** Of stdout. */
  readonly onLine?: (line: string) => void;
}

function ignore(): void {}

/** Runs a command that prints data: its lines on stdout, its messages on stderr. */
export async function look(
  words: Words,
  options: CaptureOptions,
  { onEvent = ignore, onLine = ignore }: Heard,
): Promise<Ended> {
  const told = new Told(onEvent);
  const child = start(words, options, ['ignore', 'pipe', 'pipe']);
  const read = [linesOf(child.stdout, onLine), linesOf(child.stderr, told.add)];
  const status = await endOf(child, options);
  await Promise.all(read.map(readRest));
  return told.ended(status, status > NOT_ALL);
}

/**
 * Runs a command beside a task, which has these streams. Messages come through a file: stderr is the task's, too, and
 * a pipe would not outlive this process.
 */
export async function accompany(
  { options: given, task }: Words,
  options: CaptureOptions & { readonly stdio: readonly Stream[] },
  onEvent: (event: MessageLine) => void,
): Promise<Ended> {
  const told = new Told(onEvent);
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), 'capture-events-')), 'events.jsonl');
  try {
    // Only a file that is there gets the mistakes, too.
    fs.writeFileSync(file, '');
    const child = start({ options: [...given, `--log-file=${file}`], task }, options, options.stdio);
    const followed = follow(file, told.add);
    const status = await endOf(child, options).finally(() => followed.close());
    // Any other status is the task's.
    return told.ended(status, status !== EXIT.ok && told.isSilent);
  } finally {
    remove(file);
  }
}

function remove(file: string): void {
  try {
    fs.unlinkSync(file);
    fs.rmdirSync(path.dirname(file));
  } catch (error) {
    // Who cleans the directory of temporary files was faster.
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

function start(
  { options: given, task }: Words,
  { env = process.env, cwd, signal, debug = false }: CaptureOptions,
  stdio: readonly (Stream | 'pipe')[],
): ChildProcess {
  signal?.throwIfAborted();
  const messages = ['--log-format=json', `--log-level=${debug ? 'debug' : 'info'}`];
  const words = [...given, ...messages, ...(task === undefined ? [] : ['--', ...task])];
  return spawn(CAPTURE, words, { cwd, env: { CAPTURE_NODE: process.execPath, ...env }, stdio: [...stdio] });
}

/** Resolves to the exit status. Rejects if the process cannot be started. */
async function endOf(child: ChildProcess, { signal }: CaptureOptions): Promise<ExitStatus> {
  const stop = (): void => void child.kill('SIGTERM');
  signal?.addEventListener('abort', stop);
  try {
    return await new Promise((resolve, reject) => {
      child.once('error', (cause) => reject(notStarted(cause)));
      child.once('exit', (code, name) =>
        resolve(code ?? statusOfSignal(name === null ? 0 : os.constants.signals[name])),
      );
    });
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

function notStarted(cause: unknown): CaptureError {
  const hint = `check that ${CAPTURE} can be executed, and that the directory exists in which it is to start`;
  return new CaptureError(EXIT.internal, `cannot start capture: ${reasonOf(cause)}`, { hint, cause });
}

/** The error that the command has told; undefined if it has refused nothing and has not failed. */
export function refusalOf({ status, told, hasFailed, plain }: Ended): CaptureError | undefined {
  const [first, ...others] = told
    .filter(({ event }) => event === 'mistake' || event === 'refused')
    .map(({ msg, hint = '' }) => ({ message: msg, hint }));
  if (first !== undefined) return errorOf(status, [first, ...others]);
  if (!hasFailed) return undefined;
  const text = plain.join('\n');
  const [, message = text, hint = ''] = /capture: (.*?)(?: \(try: (.*)\))?$/s.exec(text) ?? [];
  const unsaid = `capture exited with ${status}, and has not said why`;
  return errorOf(status, [{ message: message || unsaid, hint }]);
}

/** Of commands that print data: not all is done, or whole. */
const NOT_ALL: ExitStatus = 1;
/** A read(2) at the end of a file costs next to nothing, and works where inotify does not. */
const LOOK_AGAIN_MS = 100;

/** Each line of the file, and of what is appended to it. */
function follow(file: string, onLine: (line: string) => void): { close(): void } {
  const fd = fs.openSync(file, 'r');
  const decoder = new StringDecoder('utf8');
  const buffer = Buffer.alloc(2 ** 16);
  let rest = '';
  const read = (): void => {
    for (let size = fs.readSync(fd, buffer); size > 0; size = fs.readSync(fd, buffer)) {
      const lines = (rest + decoder.write(buffer.subarray(0, size))).split('\n');
      rest = lines.pop() ?? '';
      lines.forEach(onLine);
    }
  };
  const timer = setInterval(read, LOOK_AGAIN_MS);
  return {
    close: () => {
      clearInterval(timer);
      read();
      fs.closeSync(fd);
    },
  };
}

interface Lines {
  /** Bytes so far. */
  read(): number;
  /** Resolves at the end of the stream. */
  readonly ended: Promise<unknown>;
  /** Takes no more lines. What is written yet is read, so that nobody gets SIGPIPE, but keeps nothing waiting. */
  leave(): void;
}

function linesOf(input: Readable | null, onLine: (line: string) => void): Lines {
  if (!(input instanceof Socket)) return { read: () => 0, ended: Promise.resolve(), leave: ignore };
  const reader = createInterface({ input });
  reader.on('line', onLine);
  return {
    read: () => input.bytesRead,
    ended: new Promise((resolve) => {
      reader.once('close', resolve);
    }),
    leave: () => {
      reader.close();
      input.resume().unref();
    },
  };
}

/** What capture has written is in the pipe when it exits: nothing more comes within this time. */
const REST_MS = 100;
const MOST_RESTS = 50;

/** After the exit. A process that a command of the user has left behind (`--verify-checkpoint`) may hold the pipe open. */
async function readRest({ read, ended, leave }: Lines): Promise<void> {
  let before = -1;
  for (let rests = 0; before < read() && rests < MOST_RESTS; rests += 1) {
    before = read();
    // oxlint-disable-next-line no-await-in-loop -- until nothing comes
    const isEnded = await Promise.race([ended.then(() => true), setTimeout(REST_MS, false)]);
    if (isEnded) return;
    // Whoever blocks this thread makes the timer late: now the pipe has been read, too.
    // oxlint-disable-next-line no-await-in-loop -- until nothing comes
    await setImmediate();
  }
  leave();
}

/** Undefined if the line is no JSON, as the rest of one whose writer was killed. */
export function fromJson<T extends object>(line: string): T | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    return JSON.parse(line) as T;
  } catch {
    return undefined;
  }
}
