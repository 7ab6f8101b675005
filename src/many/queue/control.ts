// The socket on which a worker receives `capture worker pause` and `resume` of the same user on the same machine. A
// request is one line of JSON, the answer one line of text. A killed worker leaves its socket behind; the next command
// that finds it removes it.
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import * as z from 'zod';
import { CaptureError, errnoOf, reasonOf } from '../../model/errors.ts';
import type { Log } from '../../log/log.ts';
import { EXIT } from '../../model/exit-status.ts';
import { makePrivateDir } from '../../native/private-dir.ts';
import type { Pausing } from './pausing.ts';

const asked = z.discriminatedUnion('act', [
  z.object({
    act: z.literal('pause'),
    how: z.enum(['stop', 'checkpoint']),
    forMs: z.number().positive().optional(),
  }),
  z.object({ act: z.literal('resume') }),
]);
export type AskedOfWorker = Readonly<z.infer<typeof asked>>;

const ANSWER_MS = 5000;
const LONGEST_LINE = 1000;

/** A private directory: whoever can enter it can pause our workers. */
function socketDir(env: NodeJS.ProcessEnv): string {
  const uid = process.geteuid?.() ?? 0;
  const dir = path.join(env['XDG_RUNTIME_DIR'] ?? os.tmpdir(), `capture-workers-${uid}`);
  try {
    makePrivateDir(dir);
    return dir;
  } catch (error) {
    throw new CaptureError(
      EXIT.unavailable,
      `there is no place for the sockets of workers: ${reasonOf(error)}`,
      {
        hint: 'let XDG_RUNTIME_DIR, or TMPDIR where that is not set, name a directory of yours, for capture worker and capture worker pause',
        cause: error,
      },
    );
  }
}

export interface ControlSocket {
  close(): Promise<void>;
}

/** Starts to listen. Undefined if there is no place for the socket; the worker then logs that and runs without it. */
export async function openControl(
  pausing: Pick<Pausing, 'pause' | 'resume'>,
  { env, log }: { readonly env: NodeJS.ProcessEnv; readonly log: Pick<Log, 'warn'> },
): Promise<ControlSocket | undefined> {
  try {
    return await listen(pausing, env);
  } catch (error) {
    const hint = error instanceof CaptureError ? error.hint : undefined;
    log.warn(`capture worker pause cannot reach this worker: ${reasonOf(error)}`, {
      hint: hint ?? 'let XDG_RUNTIME_DIR name a directory with a short path that can be written',
    });
    return undefined;
  }
}

async function listen(
  pausing: Pick<Pausing, 'pause' | 'resume'>,
  env: NodeJS.ProcessEnv,
): Promise<ControlSocket> {
  const file = path.join(socketDir(env), `${process.pid}.sock`);
  fs.rmSync(file, { force: true });
  const server = net.createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (chunk: string) => {
      text += chunk;
      if (text.includes('\n')) socket.end(`${obey(text, pausing)}\n`);
      else if (text.length > LONGEST_LINE) socket.destroy();
    });
  });
  server.listen(file);
  await once(server, 'listening');
  return {
    close: async () => {
      // close() removes the socket, too (Node, "Identifying paths for IPC connections").
      server.close();
      await once(server, 'close');
    },
  };
}

function obey(line: string, pausing: Pick<Pausing, 'pause' | 'resume'>): string {
  try {
    const message = asked.parse(JSON.parse(line));
    if (message.act === 'pause') pausing.pause('person', message.how, message.forMs);
    else pausing.resume('person');
    return 'ok';
  } catch (error) {
    return `not understood: ${reasonOf(error)}`;
  }
}

/**
 * Sends the request to all workers of this user on this machine. Resolves to the process ids of the workers that
 * accepted.
 */
export async function tellWorkers(
  message: AskedOfWorker,
  env: NodeJS.ProcessEnv,
): Promise<readonly number[]> {
  const dir = socketDir(env);
  const told: number[] = [];
  for (const name of fs.readdirSync(dir).filter((one) => one.endsWith('.sock'))) {
    const file = path.join(dir, name);
    try {
      if ((await tell(file, message)) === 'ok') told.push(Number.parseInt(name, 10));
    } catch (error) {
      if (errnoOf(error) !== 'ECONNREFUSED') throw error;
      // No process listens on this socket any more (unix(7)).
      fs.rmSync(file, { force: true });
    }
  }
  return told;
}

async function tell(file: string, message: AskedOfWorker): Promise<string> {
  const socket = net.connect(file);
  try {
    await once(socket, 'connect');
    socket.setTimeout(ANSWER_MS, () => socket.destroy());
    socket.write(`${JSON.stringify(message)}\n`);
    for await (const line of readline.createInterface({ input: socket })) return line;
    return '';
  } finally {
    socket.destroy();
  }
}
