// The launcher's connection to its sidecar: the channel to its own child, or a socket to the sidecar that all tasks of
// this machine share. If the child or the connection is gone, so is the sidecar. This file does not replace it.
import type { ChildProcess } from 'node:child_process';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Alive, FromSidecar, ToSidecar } from '../model/format/messages.ts';
import { MessageReader, messageText } from '../model/format/shared-sidecar.ts';
import { type BackOff, newDeferred, pauseAfter } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';
import { descriptorOf, peerOf } from '../native/peer.ts';
import { Heartbeat, type Pace } from './heartbeat.ts';
import { hasEnded, noteOwnChild } from './own-children.ts';
import type { StartedSidecar } from './sidecar-start.ts';

/** After its last message the sidecar only has to exit. */
const EXIT_WITHIN_MS = 2000;
/** The runner starts a new shared sidecar at once. If none listens within this time, none will. */
const CONNECT_WITHIN_MS = 10_000;
const CONNECT: BackOff = { firstMs: 20, mostMs: 500 };

export interface SidecarGone {
  readonly how: string;
  /** False: the connection was never made. */
  readonly wasThere: boolean;
}

export interface SidecarLink {
  /** Undefined for a shared sidecar. */
  readonly pid: number | undefined;
  /** A send on a broken link is not an error: `gone` reports the loss. */
  send(message: ToSidecar): void;
  /** Resolves once the sidecar is gone and its last message has been read. */
  readonly gone: Promise<SidecarGone>;
  /** Lets the sidecar exit, or ends it; resolves when it is gone. */
  close(): Promise<void>;
}

type OnMessage = (message: FromSidecar) => void;

interface LinkEvents {
  readonly hear: OnMessage;
  /** It has said nothing for a while after its start. */
  readonly slow: () => void;
}

/** Updates `ownChildren`. */
export function linkToChild(
  { child, gone }: StartedSidecar,
  { hear, slow }: LinkEvents,
  ownChildren: Set<number>,
  pace?: Pace,
): SidecarLink {
  noteOwnChild(child, ownChildren);
  const heartbeat = new Heartbeat(child, slow, pace);
  child.on('message', (message: FromSidecar | Alive) => {
    heartbeat.heard();
    if (message.kind !== 'alive') hear(message);
  });
  return {
    pid: child.pid,
    send: (message) => {
      if ('deadlineMs' in message) heartbeat.endsAt(message.deadlineMs);
      if (child.connected) child.send(message, () => undefined);
    },
    gone: gone.then((how) => {
      heartbeat.close();
      return { how: heartbeat.hasKilled ? 'it hung, and was killed' : how, wasThere: true };
    }),
    close: () => {
      heartbeat.close();
      return endOf(child);
    },
  };
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || hasEnded(child)) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const late = setTimeout(() => child.kill('SIGKILL'), EXIT_WITHIN_MS);
  if (child.connected) child.disconnect();
  await exited;
  clearTimeout(late);
}

/** Retries for a while, because a dead shared sidecar is being replaced. Messages wait until then. */
export function linkToShared(path: string, hear: OnMessage, withinMs = CONNECT_WITHIN_MS): SidecarLink {
  const gone = newDeferred<SidecarGone>();
  const closing = new AbortController();
  let waiting: ToSidecar[] = [];
  let socket: net.Socket | undefined;
  void connected(path, withinMs, closing.signal).then((made) => {
    if (made === undefined) return gone.resolve({ how: `nobody listens at ${path}`, wasThere: false });
    socket = made;
    const reader = new MessageReader();
    made.setEncoding('utf8').on('data', (piece: string) => {
      try {
        for (const message of reader.read(piece)) hear(message as FromSidecar);
      } catch {
        made.destroy(); // not a message of a sidecar
      }
    });
    made.once('close', () => gone.resolve({ how: 'its connection broke', wasThere: true }));
    for (const message of waiting) made.write(messageText(message));
    waiting = [];
  });
  return {
    pid: undefined,
    send: (message) => {
      if (socket === undefined) waiting.push(message);
      else if (socket.writable) socket.write(messageText(message));
    },
    gone: gone.promise,
    close: async () => {
      closing.abort();
      socket?.end();
      const late = setTimeout(() => socket?.destroy(), EXIT_WITHIN_MS);
      await gone.promise;
      clearTimeout(late);
    },
  };
}

/** Undefined if nobody answers in time. */
async function connected(
  path: string,
  withinMs: number,
  signal: AbortSignal,
): Promise<net.Socket | undefined> {
  const untilMs = clockMs() + withinMs;
  for (let tries = 0; !signal.aborted && clockMs() < untilMs; tries += 1) {
    const socket = await connectOnce(path);
    if (socket !== undefined && !signal.aborted) return socket;
    socket?.destroy();
    await sleep(pauseAfter(CONNECT, tries), undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}

function connectOnce(path: string): Promise<net.Socket | undefined> {
  return new Promise((resolve) => {
    const socket = net.connect(path);
    // A later error is always followed by `close`, which is enough.
    socket.on('error', () => resolve(undefined));
    socket.once('connect', () => {
      if (isOurUsers(socket)) return resolve(socket);
      socket.destroy();
      resolve(undefined);
    });
  });
}

/** The messages contain the store's address, and perhaps the environment: another user's process must not get them. */
function isOurUsers(socket: net.Socket): boolean {
  try {
    return peerOf(descriptorOf(socket)).uid === process.getuid?.();
  } catch {
    return false; // it is gone
  }
}
