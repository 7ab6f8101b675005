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

  // It is late only while it has something to read, or everything, and we wait for it.
  const waits = { toRead: false, toWrite: false };
  let timer: NodeJS.Timeout | undefined;
  const wait = (change: Partial<typeof waits>): void => {
    Object.assign(waits, change);
    clearTimeout(timer);
    const late = (): void => fail(new Error(`${program} made no progress for ${formatMs(stallMs)}`));
    if (waits.toRead && waits.toWrite) timer = setTimeout(late, stallMs);
  };
  let isFed = false;
  const feed = async (): Promise<void> => {
    for await (const piece of source) {
      wait({ toRead: true });
      if (!(await written(stdin, piece))) return;
      wait({ toRead: false });
      release?.(piece);
    }
    wait({ toRead: true });
    stdin.end();
    isFed = true;
  };
  stdin.on('error', () => undefined);
  feed().catch(fail);
  const abort = (): void => fail(signal?.reason);
  signal?.addEventListener('abort', abort);
  try {
    const chunks = stdout.iterator() as AsyncIterator<Uint8Array>;
    for (;;) {
      wait({ toWrite: true });
      // oxlint-disable-next-line no-await-in-loop -- in the order of the stream
      const { done, value } = await untilAborted(chunks.next(), stop.signal);
      if (done === true) break;
      wait({ toWrite: false });
      yield value;
    }
    wait({ toRead: true, toWrite: true });
    await untilAborted(closed, stop.signal);
    if (child.exitCode === null) throw new Error(`${program} was ended by ${child.signalCode}`);
    if (child.exitCode > 0) throw new ProgramFailedError(reasonIn(said) ?? `exit ${child.exitCode}`);
    if (!isFed) throw new Error(`${program} ended before it had read everything`);
  } finally {
    signal?.removeEventListener('abort', abort);
    stop.abort();
    clearTimeout(timer);
    kill();
    forget();
    for (const stream of [stdin, stdout, stderr, statuses]) stream.destroy();
  }
}

/** False if the program no longer reads: how it ends says why. */
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
