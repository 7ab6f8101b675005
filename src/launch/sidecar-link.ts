// How the launcher speaks with its sidecar: over the channel to a child of its own, or over a socket to the one that all
// tasks of this machine share. When the child or the connection is gone, so is the sidecar; it is not replaced here.
import type { ChildProcess } from 'node:child_process';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FromSidecar, ToSidecar } from '../model/format/messages.ts';
import { MessageReader, messageText } from '../model/format/shared-sidecar.ts';
import { type BackOff, newDeferred, pauseAfter } from '../model/waiting.ts';
import { clockMs } from '../native/clock.ts';
import { descriptorOf, peerOf } from '../native/peer.ts';
import { hasEnded, noteOwn } from './own-children.ts';
import type { StartedSidecar } from './sidecar-start.ts';

/** After its last word it only has to exit. */
const EXIT_WITHIN_MS = 2000;
/** The runner starts another shared sidecar at once; where none listens after this time, none will. */
const CONNECT_WITHIN_MS = 10_000;
const CONNECT: BackOff = { firstMs: 20, mostMs: 500 };

export interface Gone {
  readonly how: string;
  /** False: there never was anybody. */
  readonly wasThere: boolean;
}

export interface SidecarLink {
  /** Of a child of ours. */
  readonly pid: number | undefined;
  /** A link that breaks is no error of its own: that it is gone follows, and is what counts. */
  send(message: ToSidecar): void;
  /** Resolves once it is gone and its last message is read. */
  readonly gone: Promise<Gone>;
  /** Lets it exit, or ends it; resolves when it is gone. */
  close(): Promise<void>;
}

type Hear = (message: FromSidecar) => void;

/** `ownChildren` is kept up to date. */
export function linkToChild(
  { child, gone }: StartedSidecar,
  hear: Hear,
  ownChildren: Set<number>,
): SidecarLink {
  noteOwn(child, ownChildren);
  child.on('message', (message) => hear(message as FromSidecar));
  return {
    pid: child.pid,
    send: (message) => {
      if (child.connected) child.send(message, () => undefined);
    },
    gone: gone.then((how) => ({ how, wasThere: true })),
    close: () => endOf(child),
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

/** Tries for a while: a shared sidecar that died is being replaced. What is sent meanwhile waits. */
export function linkToShared(path: string, hear: Hear, withinMs = CONNECT_WITHIN_MS): SidecarLink {
  const gone = newDeferred<Gone>();
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
        made.destroy(); // no sidecar of ours speaks like this
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
    // Later errors are followed by its close, which says enough.
    socket.on('error', () => resolve(undefined));
    socket.once('connect', () => {
      if (isOurUsers(socket)) return resolve(socket);
      socket.destroy();
      resolve(undefined);
    });
  });
}

/** What we send says where the store is, and may hold the environment: another user's process gets none of it. */
function isOurUsers(socket: net.Socket): boolean {
  try {
    return peerOf(descriptorOf(socket)).uid === process.getuid?.();
  } catch {
    return false; // it is gone
  }
}
