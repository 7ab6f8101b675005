// Sends a stream of bytes through a program, such as gpg, in bounded memory. No shell. The program may die, hang or stop
// reading: then the stream ends with an error, and the program is killed with its process group.
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { showPath } from '../model/path.ts';
import { formatMs } from '../model/units.ts';
import { untilAborted } from '../model/waiting.ts';
import { killedAtExit } from './ask-program.ts';
import { sendSignal } from './processes.ts';

export interface ThroughOptions {
  readonly env: NodeJS.ProcessEnv;
  /** How long it may neither read what it is given, nor write or end when it has everything. */
  readonly stallMs: number;
  /** Called with each line that it prints on its file descriptor 3. */
  readonly onStatus: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
  /** Called with each piece of the source that the program has read. */
  readonly release?: ((piece: Uint8Array) => void) | undefined;
}

/** It has ended by itself with another status than 0; the message is the last line of its stderr. */
export class ProgramFailedError extends Error {}

/** Of its stderr, only the last line is shown. */
const MOST_OF_STDERR = 4096;
const MOST_SHOWN = 300;

/**
 * What the program writes to stdout. Its bytes are right only if the stream ends without an error.
 *
 * @throws the error of `source` and the reason of `signal` unchanged; {@link ProgramFailedError}; Error with ENOENT if the
 *   program is not in PATH, and if it is killed, stalls, or does not read everything.
 */
export async function* throughProgram(
  program: string,
  args: readonly string[],
  source: AsyncIterable<Uint8Array>,
  { env, stallMs, onStatus, signal, release }: ThroughOptions,
): AsyncGenerator<Uint8Array> {
  signal?.throwIfAborted();
  const child = spawn(program, args, { env, stdio: ['pipe', 'pipe', 'pipe', 'pipe'], detached: true });
  const stop = new AbortController();
  const fail = (error: unknown): void => stop.abort(error);
  const closed = new Promise<void>((resolve, reject) => child.once('error', reject).once('close', resolve));
  closed.catch(fail);
  // Without a free file descriptor it has no pipes, and the error follows.
  if ((child.stdin as unknown) === undefined) await closed;
  const [stdin, stdout, stderr, statuses] = child.stdio as unknown as [
    Writable,
    Readable,
    Readable,
    Readable,
  ];
  const kill = (): void => killGroup(child);
  const forget = killedAtExit(kill);
  let said = '';
  stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-MOST_OF_STDERR);
  });
  createInterface({ input: statuses }).on('line', onStatus);

  const patience = new Patience(stallMs, () =>
    fail(new Error(`${program} made no progress for ${formatMs(stallMs)}`)),
  );
  let isFed = false;
  stdin.on('error', () => undefined);
  feed(stdin, source, { patience, release }).then((whole) => (isFed = whole), fail);
  const abort = (): void => fail(signal?.reason);
  signal?.addEventListener('abort', abort);
  try {
    const chunks = stdout.iterator() as AsyncIterator<Uint8Array>;
    for (;;) {
      patience.wait({ toWrite: true });
      // oxlint-disable-next-line no-await-in-loop -- in the order of the stream
      const { done, value } = await untilAborted(chunks.next(), stop.signal);
      if (done === true) break;
      patience.wait({ toWrite: false });
      yield value;
    }
    patience.wait({ toRead: true, toWrite: true });
    await untilAborted(closed, stop.signal);
    if (child.exitCode === null) throw new Error(`${program} was ended by ${child.signalCode}`);
    if (child.exitCode > 0) throw new ProgramFailedError(reasonIn(said) ?? `exit ${child.exitCode}`);
    if (!isFed) throw new Error(`${program} ended before it had read everything`);
  } finally {
    signal?.removeEventListener('abort', abort);
    stop.abort();
    patience.end();
    kill();
    forget();
    for (const stream of [stdin, stdout, stderr, statuses]) stream.destroy();
  }
}

/** The program is late only while it has something to read, or everything, and we wait for what it writes. */
class Patience {
  readonly #stallMs: number;
  readonly #late: () => void;
  readonly #waits = { toRead: false, toWrite: false };
  #timer: NodeJS.Timeout | undefined;

  constructor(stallMs: number, late: () => void) {
    this.#stallMs = stallMs;
    this.#late = late;
  }

  /** Each call is progress. */
  wait(change: { readonly toRead?: boolean; readonly toWrite?: boolean }): void {
    Object.assign(this.#waits, change);
    clearTimeout(this.#timer);
    if (this.#waits.toRead && this.#waits.toWrite) this.#timer = setTimeout(this.#late, this.#stallMs);
  }

  end(): void {
    this.#waits.toWrite = false;
    clearTimeout(this.#timer);
  }
}

/** False if the program no longer reads: how it ends says why. */
async function feed(
  stdin: Writable,
  source: AsyncIterable<Uint8Array>,
  { patience, release }: Pick<ThroughOptions, 'release'> & { readonly patience: Patience },
): Promise<boolean> {
  for await (const piece of source) {
    patience.wait({ toRead: true });
    if (!(await written(stdin, piece))) return false;
    patience.wait({ toRead: false });
    release?.(piece);
  }
  patience.wait({ toRead: true });
  stdin.end();
  return true;
}

function written(stdin: Writable, piece: Uint8Array): Promise<boolean> {
  return new Promise((resolve) =>
    stdin.write(piece, (error) => resolve(error === null || error === undefined)),
  );
}

function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid !== undefined && exitCode === null && signalCode === null) sendSignal(-pid, 'SIGKILL');
}

/** The last line; it may contain anything. */
function reasonIn(stderr: string): string | undefined {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  return line === '' ? undefined : showPath(line.slice(0, MOST_SHOWN));
}
