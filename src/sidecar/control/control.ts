// The control socket: accepts requests of `capture flush` from the task's scripts, and answers them. It only listens,
// so it costs nothing without requests. It answers only our own user, and one request at a time per connection. A
// request changes nothing about the run except the order of its work.
import { setMaxListeners } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import posix from 'node:path/posix';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { OWN_DIR } from '../../model/file/manifest.ts';
import {
  type ControlAnswer,
  controlLine,
  type ControlRequest,
  flushedAnswer,
  LONGEST_LINE_BYTES,
  LONGEST_SOCKET_PATH_BYTES,
  parseRequest,
} from '../../model/format/control.ts';
import { encodePath } from '../../model/path.ts';
import { whileLinked } from '../../model/waiting.ts';
import { type HeldDirectory, O_PATH } from '../../native/beneath.ts';
import { descriptorOf, peerOf } from '../../native/peer.ts';
import { removeTree } from '../../native/remove-tree.ts';
import { isOursOrRoots } from '../../native/users.ts';
import { openPrivateDir } from '../../native/private-dir.ts';
import { tidyUp } from '../../native/tidy.ts';
import type { Needs } from '../run/context.ts';
import type { Flush } from './flush.ts';

type ControlContext = Needs<'settings' | 'log' | 'runToken' | 'signal'>;

/** A client that sends nothing for this long is disconnected. */
const REQUEST_WITHIN_MS = 10_000;
/** Further connections are closed at once. */
const MOST_CONNECTIONS = 512;

/** Answers one request; `signal` aborts when the client is gone or the socket is being closed. */
export type Serve = (request: ControlRequest, signal: AbortSignal) => Promise<ControlAnswer>;

export interface ControlOptions {
  readonly workdir: string;
  readonly runToken: string;
  /** `--control`: the socket is created there and nowhere else. */
  readonly path: string | undefined;
  readonly serve: Serve;
  /** The user id of the client, if the kernel knows it. */
  readonly uidOf?: (fd: number) => number | undefined;
}

export interface Control {
  readonly path: string;
  /** Answers open requests with the present state, and removes the socket. */
  close(): Promise<void>;
}

/**
 * Listens from now on. Undefined if there is no place for the socket: the run continues without it, and says so.
 *
 * @throws CaptureError with status 64 if the place that the user named cannot be used.
 */
export async function openAnswers(
  context: ControlContext,
  flush: Pick<Flush, 'now'>,
): Promise<Control | undefined> {
  const { settings, runToken, log } = context;
  const serve: Serve = (request, signal) => answerTo(request, flush, signal, context.signal);
  try {
    return await openControl({ workdir: settings.workdir, runToken, path: settings.control, serve });
  } catch (error) {
    if (error instanceof CaptureError) throw error;
    log.warn(`there is no control socket, so that capture flush cannot work: ${reasonOf(error)}`, {
      hint: 'let TMPDIR name a directory with a short path that can be written',
    });
    return undefined;
  }
}

async function answerTo(
  request: ControlRequest,
  flush: Pick<Flush, 'now'>,
  signal: AbortSignal,
  fenced: AbortSignal,
): Promise<ControlAnswer> {
  if (fenced.aborted) return { kind: 'refused', why: reasonOf(fenced.reason) };
  if (request.kind === 'ping') return { kind: 'watching' };
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), request.timeoutMs);
  try {
    return flushedAnswer(await whileLinked([signal, late.signal, fenced], (either) => flush.now(either)));
  } finally {
    clearTimeout(timer);
  }
}

/** @throws CaptureError with status 64 if `path` cannot be used; an Error if no other place can be used. */
export async function openControl(options: ControlOptions): Promise<Control> {
  if (options.path !== undefined) return openNamed(options.path, options);
  let reason: unknown = new Error('every path for it is too long');
  for (const place of socketPlaces(options.workdir, options.runToken)) {
    try {
      const dir = posix.dirname(place);
      // oxlint-disable-next-line no-await-in-loop -- the next place only when this one is of no use
      const control = await listen(place, openPrivateDir(dir), options);
      return { ...control, close: () => control.close().then(() => removeOwn(dir)) };
    } catch (error) {
      reason = error;
    }
  }
  throw reason;
}

async function openNamed(path: string, options: ControlOptions): Promise<Control> {
  const failed = (why: string, hint: string): CaptureError =>
    new CaptureError(EXIT.usage, `cannot listen at ${path} (--control): ${why}`, { hint });
  if (await answers(path))
    throw failed('another capture listens there', 'give each capture a socket of its own');
  try {
    const fd = fs.openSync(posix.dirname(path), O_PATH | fs.constants.O_DIRECTORY);
    const held = { at: `/proc/self/fd/${fd}`, close: () => fs.closeSync(fd) };
    return await listen(path, held, options);
  } catch (error) {
    throw failed(reasonOf(error), 'name a path in a directory that can be written, such as a shared volume');
  }
}

/** Only a socket that nobody listens on may be replaced. */
async function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(path, () => resolve(true));
    socket.on('error', () => resolve(false)).on('connect', () => socket.destroy());
  });
}

/** `held`: the directory of `path`, whatever gets its name meanwhile. It is closed with the socket. */
async function listen(path: string, held: HeldDirectory, options: ControlOptions): Promise<Control> {
  try {
    return await listenIn(path, held, options);
  } catch (error) {
    held.close();
    throw error;
  }
}

async function listenIn(path: string, held: HeldDirectory, options: ControlOptions): Promise<Control> {
  const closing = new AbortController();
  // Every connection listens to this signal: that is no leak.
  setMaxListeners(0, closing.signal);
  const connections = new Set<Promise<void>>();
  const server = net.createServer((socket) => {
    const connection = answer(socket, options, closing.signal).finally(() => connections.delete(connection));
    connections.add(connection);
  });
  server.maxConnections = MOST_CONNECTIONS;
  // Created under another name and renamed over the one that a dead sidecar left: there is always a socket.
  const placed = `${held.at}/${posix.basename(path)}`;
  const made = `${placed}.new`;
  fs.rmSync(made, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(made, resolve);
  });
  makePrivate(made);
  fs.renameSync(made, placed);
  const close = async (): Promise<void> => {
    tidyUp(() => fs.rmSync(placed, { force: true }));
    const ended = new Promise<void>((resolve) => {
      server.close(() => resolve());
    });
    closing.abort();
    await Promise.all(connections);
    await ended;
    held.close();
  };
  let closed: Promise<void> | undefined;
  return { path, close: () => (closed ??= close()) };
}

/** Follows no link: others may write in the directory of `--control`. */
function makePrivate(socket: string): void {
  const fd = fs.openSync(socket, O_PATH | fs.constants.O_NOFOLLOW);
  try {
    if (fs.fstatSync(fd).isSocket()) fs.chmodSync(`/proc/self/fd/${fd}`, 0o600);
    else throw new Error(`${socket} was replaced`);
  } finally {
    fs.closeSync(fd);
  }
}

/** Never rejects: a failure with one client affects only that client. */
async function answer(socket: net.Socket, options: ControlOptions, closing: AbortSignal): Promise<void> {
  const gone = new AbortController();
  const closed = new Promise<void>((resolve) => {
    socket.once('close', () => {
      gone.abort();
      resolve();
    });
  });
  // A client that is killed: the close of its connection says enough.
  socket.on('error', () => undefined);
  closing.addEventListener('abort', () => gone.abort(), { signal: gone.signal });
  try {
    const said = await reply(socket, options, gone.signal);
    if (said === undefined) socket.destroy();
    // The client must be able to finish its request, or it never reads this answer.
    else socket.end(controlLine(said));
  } catch {
    socket.destroy();
  }
  if (closing.aborted) socket.destroySoon();
  else closing.addEventListener('abort', () => socket.destroySoon(), { signal: gone.signal });
  await closed;
}

/** Undefined without a request. */
async function reply(
  socket: net.Socket,
  { serve, uidOf = (fd) => peerOf(fd).uid }: ControlOptions,
  signal: AbortSignal,
): Promise<ControlAnswer | undefined> {
  const uid = uidOf(descriptorOf(socket));
  if (uid !== undefined && !isOursOrRoots(uid)) {
    // Reads and discards the rest: with unread bytes the answer would be lost.
    socket.resume();
    return { kind: 'refused', why: `it answers its own user (${process.getuid?.()}), and you are ${uid}` };
  }
  const line = await readLine(socket, signal);
  if (line === undefined) return undefined;
  const request = parseRequest(line);
  return request === undefined ? { kind: 'refused', why: 'this is no request' } : serve(request, signal);
}

async function readLine(socket: net.Socket, signal: AbortSignal): Promise<string | undefined> {
  socket.setEncoding('utf8');
  return new Promise((resolve) => {
    let text = '';
    socket.setTimeout(REQUEST_WITHIN_MS, () => resolve(undefined));
    signal.addEventListener('abort', () => resolve(undefined), { once: true });
    socket.on('data', (chunk: string) => {
      text += chunk;
      const end = text.indexOf('\n');
      if (end === -1 && text.length <= LONGEST_LINE_BYTES) return;
      socket.setTimeout(0);
      socket.removeAllListeners('data').resume();
      resolve(end === -1 ? '' : text.slice(0, end));
    });
  });
}

/** Removes the directory if it was created only for the socket. Never rejects: if it stays, that must not cost the run. */
async function removeOwn(dir: string): Promise<void> {
  if (posix.basename(dir) !== OWN_DIR) await removeTree(dir).catch(() => undefined);
}

/** Enough characters of the run's token to be unique. */
const TOKEN_LENGTH = 12;

/**
 * The places to try, best first. Beside the task's files: a container that has the work directory has the socket, too.
 * In the directory for temporary files: a name that always fits.
 */
export function socketPlaces(
  workdir: string,
  runToken: string,
  tmpdirs: readonly string[] = [os.tmpdir(), '/tmp'],
): readonly string[] {
  const token = runToken.slice(0, TOKEN_LENGTH);
  const places = [
    `${workdir}/${OWN_DIR}/${token}.sock`,
    ...tmpdirs.map((dir) => `${dir}/capture-${process.getuid?.() ?? 0}-${token}/control`),
  ];
  return [...new Set(places)].filter(fits);
}

/** The path needs room for `.new`, the name under which the socket is created. Node supports only UTF-8 paths here. */
function fits(path: string): boolean {
  const bytes = encodePath(`${path}.new`);
  return typeof bytes === 'string' && Buffer.byteLength(bytes) <= LONGEST_SOCKET_PATH_BYTES;
}
