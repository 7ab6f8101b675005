// node:net: sockets on descriptors of the simulated kernel, for inotify and epoll; and a listener that nobody reaches yet.
import { EventEmitter } from 'node:events';
import realNet from 'node:net';
import { failure } from '../machine/failure.ts';
import type { Inode } from '../machine/inode.ts';
import type { SimProcess } from '../machine/process.ts';
import { theWorld } from '../machine/world.ts';

export const { isIP } = realNet;

interface OnRead {
  readonly buffer: Buffer;
  readonly callback: (length: number) => boolean;
}

interface SocketOptions {
  readonly fd?: number;
  readonly onread?: OnRead;
}

/** The time from an event of the kernel to the turn of the event loop that reads it, ms. */
const WAKE_MS = 0.05;

export class Socket extends EventEmitter {
  readonly #fd: number;
  readonly #onRead: OnRead | undefined;
  #isFlowing = false;
  #isDestroyed = false;
  #isWaking = false;

  constructor({ fd = -1, onread }: SocketOptions = {}) {
    super();
    this.#fd = fd;
    this.#onRead = onread;
  }

  resume(): this {
    this.#isFlowing = true;
    this.#listen();
    return this;
  }

  pause(): this {
    this.#isFlowing = false;
    return this;
  }

  unref(): this {
    return this;
  }

  ref(): this {
    return this;
  }

  destroy(): this {
    if (this.#isDestroyed) return this;
    this.#isDestroyed = true;
    const world = theWorld();
    try {
      world.call((process) => world.kernel.close(process, this.#fd));
    } catch {
      // The process is dead, and all of its descriptors are closed.
    }
    world.after(WAKE_MS, () => this.emit('close'));
    return this;
  }

  #listen(): void {
    const world = theWorld();
    const { process } = world;
    const description = process.descriptors.get(this.#fd);
    if (description === undefined || this.#isDestroyed) return;
    const wake = (): void => this.#wake(process);
    if (description.kind === 'inotify') description.inotify.onReadable = wake;
    else description.onReadable = wake;
    if (this.#isReadable(process)) wake();
  }

  #isReadable(process: SimProcess): boolean {
    const description = process.descriptors.get(this.#fd);
    if (description?.kind === 'inotify') return description.inotify.isReadable;
    return description?.kind === 'epoll' && description.isReadable;
  }

  #wake(process: SimProcess): void {
    if (this.#isWaking || !this.#isFlowing || this.#isDestroyed) return;
    this.#isWaking = true;
    const world = theWorld();
    const { random } = world;
    const ms = WAKE_MS + (random.chance(world.lateWakes) ? random.ms(1, 300) : random.next() * 0.3);
    // After a stall, the event loop may find other sources first.
    const fromMs = Math.max(world.nowMs, process.stalledUntilMs);
    world.scheduler.at(fromMs + ms, process, () => {
      this.#isWaking = false;
      if (this.#isFlowing && !this.#isDestroyed) this.#read(process);
    });
  }

  #read(process: SimProcess): void {
    if (!this.#isReadable(process)) return;
    const description = process.descriptors.get(this.#fd);
    if (description?.kind !== 'inotify' || this.#onRead === undefined) {
      // epoll(7) cannot be read: EINVAL ends the socket.
      this.emit('error', new Error('EINVAL'));
      this.destroy();
      return;
    }
    const length = description.inotify.read(this.#onRead.buffer);
    if (length > 0 && !this.#onRead.callback(length)) this.#isFlowing = false;
    else if (this.#isReadable(process)) this.#wake(process);
  }
}

type Accept = (socket: Connection) => void;

/** The listeners, by the inode of their sockets. */
const listening = new WeakMap<object, { readonly accept: Accept; readonly process: SimProcess }>();

class Server extends EventEmitter {
  maxConnections = 0;
  readonly #accept: Accept;

  constructor(accept: Accept) {
    super();
    this.#accept = accept;
  }

  listen(path: string, then?: () => void): this {
    const world = theWorld();
    const { process } = world;
    if (then !== undefined) this.once('listening', then);
    world.after(WAKE_MS, () => {
      try {
        const inode = world.call(() => bind(process, path));
        listening.set(inode, { accept: this.#accept, process });
        this.emit('listening');
      } catch (error) {
        this.emit('error', error);
      }
    });
    return this;
  }

  close(then?: () => void): this {
    theWorld().after(WAKE_MS, () => then?.());
    return this;
  }
}

/** bind(2) of a unix socket. */
function bind(process: SimProcess, path: string): Inode {
  const { kernel } = theWorld();
  const { parent, name, dentry } = kernel.find(process, path, { follow: false });
  if (dentry !== undefined) throw failure('EADDRINUSE', 'bind', path);
  const inode = kernel.files.newInode('socket', 0o600);
  kernel.files.link(parent, name, inode);
  return inode;
}

export function createServer(accept: Accept): Server {
  return new Server(accept);
}

/** The server's end of a connection, as far as it is used: one line in, one line out. */
class Connection extends EventEmitter {
  readonly _handle = { fd: -1 };
  readonly #answered: (text: string | undefined) => void;
  #isOver = false;

  constructor(answered: (text: string | undefined) => void) {
    super();
    this.#answered = answered;
  }

  setEncoding(): this {
    return this;
  }

  setTimeout(): this {
    return this;
  }

  resume(): this {
    return this;
  }

  end(text?: string): this {
    this.#finish(text);
    return this;
  }

  destroy(): this {
    this.#finish(undefined);
    return this;
  }

  destroySoon(): void {
    this.#finish(undefined);
  }

  #finish(text: string | undefined): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#answered(text);
    theWorld().after(WAKE_MS, () => this.emit('close'));
  }
}

/**
 * Sends one line to the listener at `path`, for a process of the world outside. `answered` gets the answer; undefined
 * if there is none.
 */
export function askAt(path: string, line: string, answered: (text: string | undefined) => void): void {
  const world = theWorld();
  const { scheduler, kernel, outside } = world;
  const at = kernel.find(outside, path, { follow: true }).dentry?.inode;
  const server = at === undefined ? undefined : listening.get(at);
  if (server?.process.isAlive !== true) return answered(undefined);
  const { process, accept } = server;
  let isOver = false;
  const finish = (text: string | undefined): void => {
    if (isOver) return;
    isOver = true;
    process.onDeath.delete(died);
    scheduler.at(scheduler.nowMs + WAKE_MS, undefined, () => answered(text));
  };
  const died = (): void => finish(undefined);
  process.onDeath.add(died);
  scheduler.at(scheduler.nowMs + WAKE_MS, process, () => {
    const connection = new Connection(finish);
    accept(connection);
    scheduler.at(scheduler.nowMs + WAKE_MS, process, () => connection.emit('data', line));
  });
}

export function connect(): Socket {
  const socket = new Socket();
  theWorld().after(WAKE_MS, () => socket.emit('error', new Error('ECONNREFUSED')));
  return socket;
}
