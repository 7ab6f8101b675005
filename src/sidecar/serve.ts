// One sidecar for all tasks of a machine: listens for launchers, and has one life for each of their connections. The
// runner starts the process again if it dies; without the runner it continues until the last life is over.
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import type { FromSidecar, ToSidecar } from '../model/format/messages.ts';
import {
  type FromSharedSidecar,
  type LifeNumbers,
  MessageReader,
  messageText,
  NO_NUMBERS,
  numbersOf,
} from '../model/format/shared-sidecar.ts';
import { adoptRunnersClock } from '../native/clock.ts';
import { descriptorOf, type Peer, peerOf } from '../native/peer.ts';
import { lowerPriority } from '../native/priority.ts';
import { shareOpenFilesAmong } from '../native/processes.ts';
import { tidyUp } from '../native/tidy.ts';
import { Life, type SharedByLives } from './life.ts';
import { OURSELVES } from './run/context.ts';
import { Shared } from './run/shared.ts';
import { SharedNotices } from './shared-notices.ts';

const TELL_EVERY_MS = 1000;
/**
 * If a life failed and cannot be closed within this time, it holds what its successor needs: then all lives start
 * again.
 */
const CLOSE_WITHIN_MS = 10_000;

interface Connection {
  readonly life: Life;
  readonly tell: (message: FromSidecar) => void;
}

/** Serves every client of the socket at `place`. The returned function sends a message to all of them. */
export function serveLaunchers(place: string): (message: FromSidecar) => void {
  // Each life listens for the end of the process, and of its children: that is no leak.
  process.setMaxListeners(0);
  adoptRunnersClock(process.env);
  // Other tasks are running at any time.
  lowerPriority();
  const serving = new Serving(place);
  serving.listen();
  process.on('disconnect', () => serving.leave());
  process.on('message', () => tellRunner({ kind: 'alive' }));
  return (message) => serving.tellAll(message);
}

class Serving {
  readonly #place: string;
  readonly #shared: SharedByLives = {
    shared: new Shared({ isMany: true }),
    notices: new SharedNotices(process.env),
  };
  readonly #server = net.createServer((socket) => this.#welcome(socket));
  readonly #connections = new Set<Connection>();
  /** The numbers of lives that are over. */
  #past: LifeNumbers = NO_NUMBERS;
  #lastSent = '';
  #isLeaving = false;

  constructor(place: string) {
    this.#place = place;
  }

  /** Created under another name and renamed over the one that a dead sidecar left: there is always a socket. */
  listen(): void {
    const made = `${this.#place}.new`;
    const listenFailed = (error: unknown): void =>
      tellRunner({ kind: 'listen-failed', why: reasonOf(error) }, () => process.exit(EXIT.unavailable));
    this.#server.once('error', listenFailed);
    try {
      fs.rmSync(made, { force: true });
    } catch (error) {
      return listenFailed(error);
    }
    this.#server.listen(made, () => {
      fs.chmodSync(made, 0o600);
      fs.renameSync(made, this.#place);
      tellRunner({ kind: 'listening' });
    });
    setInterval(() => this.#tellNumbers(), TELL_EVERY_MS).unref();
  }

  tellAll(message: FromSidecar): void {
    for (const { tell } of this.#connections) tell(message);
  }

  /** The runner is gone, or no longer needs a sidecar. */
  leave(): void {
    this.#isLeaving = true;
    this.#exitIfIdle();
  }

  #welcome(socket: net.Socket): void {
    // A launcher that is killed: the end of its connection says enough.
    socket.on('error', () => undefined);
    const peer = launcherAt(socket);
    if (peer === undefined) return void socket.destroy();
    const tell = (message: FromSidecar, then?: () => void): void => {
      if (!socket.writable) then?.();
      else socket.write(messageText(message), () => then?.());
    };
    const over = (): void => {
      this.#past = numbersOf([this.#past, life.numbers()]);
      this.#connections.delete(connection);
      shareOpenFilesAmong(this.#connections.size);
      socket.end();
      this.#tellNumbers();
      tellRunner({ kind: 'life-over', launcher: peer.pid });
      this.#exitIfIdle();
    };
    const life = new Life({
      ...this.#shared,
      launcher: peer.pid,
      stderr: stderrOf(peer.pid),
      tell,
      over,
      failed: () => void closed(life).then(over),
    });
    const connection: Connection = { life, tell };
    this.#connections.add(connection);
    shareOpenFilesAmong(this.#connections.size);
    tellRunner({ kind: 'life-begun', launcher: peer.pid });
    hear(socket, life);
    tell({ kind: 'hello', pid: process.pid });
  }

  #exitIfIdle(): void {
    if (!this.#isLeaving || this.#connections.size > 0) return;
    tidyUp(() => fs.rmSync(this.#place, { force: true }));
    // The directory was created for the socket, or is the runner's scratch directory, where others have files.
    tidyUp(() => fs.rmdirSync(path.dirname(this.#place)));
    process.exit(EXIT.ok);
  }

  #tellNumbers(): void {
    const now = [...this.#connections].map(({ life }) => life.numbers());
    const numbers = numbersOf([this.#past, ...now]);
    const text = JSON.stringify(numbers);
    if (text === this.#lastSent) return;
    this.#lastSent = text;
    tellRunner({ kind: 'numbers', numbers });
  }
}

/** Undefined for another user's process, and for one that is gone. */
function launcherAt(socket: net.Socket): Peer | undefined {
  try {
    const peer = peerOf(descriptorOf(socket));
    return peer.uid === process.getuid?.() ? peer : undefined;
  } catch {
    return undefined;
  }
}

function hear(socket: net.Socket, life: Life): void {
  const reader = new MessageReader();
  socket.setEncoding('utf8').on('data', (piece: string) => {
    try {
      for (const message of reader.read(piece)) life.obey(message as ToSidecar);
    } catch {
      socket.destroy(); // no launcher of ours sends this
    }
  });
  socket.once('close', () => life.launcherLost());
}

/** The life's launcher notices it by the end of its connection, and requests another life. */
async function closed(life: Life): Promise<void> {
  const late = setTimeout(() => process.exit(EXIT.internal), CLOSE_WITHIN_MS);
  try {
    await life.close();
  } catch {
    process.exit(EXIT.internal);
  } finally {
    clearTimeout(late);
  }
}

/** A launcher writes its messages to its stderr, and so do we for it (proc_pid_fd(5)). */
function stderrOf(launcher: number): number {
  const { O_WRONLY, O_APPEND, O_NONBLOCK, O_NOCTTY } = fs.constants;
  try {
    return fs.openSync(`/proc/${launcher}/fd/2`, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY);
  } catch {
    return OURSELVES.stderr; // a socket, or it is gone
  }
}

function tellRunner(message: FromSharedSidecar, then?: () => void): void {
  if (process.connected && process.send !== undefined)
    process.send(message, undefined, undefined, () => then?.());
  else then?.();
}
