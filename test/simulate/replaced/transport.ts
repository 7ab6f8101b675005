// Replaces src/store/http/transport.ts: one request over the simulated network. The driver itself decides what an answer
// means, or the lack of one.
import { EventEmitter } from 'node:events';
import { theWorld } from '../machine/world.ts';
import type { SimProcess } from '../machine/process.ts';
import { fateOf, type Weather } from '../store/network.ts';
import type { Request, Response, S3Server } from '../store/s3-server.ts';
import type { Answer, Outgoing } from '../../../src/store/http/transport.ts';

/** A request that moves no byte for this long is dead, as in the real file. */
const STALL_MS = 30_000;

interface Internet {
  readonly server: S3Server;
  readonly weather: Weather;
  /** Keys, as `bucket/key`, of puts that have arrived twice. */
  readonly repeated: Set<string>;
}

let internet: Internet | undefined;

export function connectTo(server: S3Server, weather: Weather): void {
  internet = { server, weather, repeated: new Set() };
}

/** No answer came. Has the name of the real class. */
export class Unanswered extends Error {
  readonly code: string | undefined;
  readonly wasIdle: boolean;

  constructor(cause: NodeJS.ErrnoException, wasIdle: boolean) {
    super(cause.message, { cause });
    this.name = 'Unanswered';
    this.code = cause.code;
    this.wasIdle = wasIdle;
  }
}

function unanswered(code: string, why: string): Unanswered {
  return new Unanswered(Object.assign(new Error(why), { code }), false);
}

type GiveUp = (why: Error) => void;

export function openTransport(): {
  send: (outgoing: Outgoing, signal: AbortSignal | undefined) => Promise<Answer>;
  closeIdle: () => void;
  close: () => void;
} {
  const underWay = new Set<GiveUp>();
  let isClosed = false;
  return {
    send: async (outgoing, signal) => {
      signal?.throwIfAborted();
      if (isClosed) throw new Error('the store is closed');
      const { process, kernel } = theWorld();
      kernel.enter(process);
      return sendOne(outgoing, { process, signal, underWay });
    },
    closeIdle: () => undefined,
    close: () => {
      isClosed = true;
      for (const giveUp of underWay) giveUp(new Error('the store is closed'));
    },
  };
}

interface Sender {
  readonly process: SimProcess;
  readonly signal: AbortSignal | undefined;
  readonly underWay: Set<GiveUp>;
}

function sendOne(outgoing: Outgoing, { process, signal, underWay }: Sender): Promise<Answer> {
  const world = theWorld();
  const { server, weather } = internet as Internet;
  const { scheduler, random } = world;
  const request = requestOf(outgoing);
  const fate = fateOf(request, weather, world.nowMs, random);
  world.count(`store: ${fate.event}`);
  if (world.isTraced) world.trace(`-> ${request.method} ${request.path.split('?')[0]}: ${fate.event}`);
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      for (const event of [broken, stalled]) if (event !== undefined) event.isCancelled = true;
      underWay.delete(giveUp);
      signal?.removeEventListener('abort', abort);
    };
    const giveUp: GiveUp = (why) => {
      settle();
      reject(new Unanswered(why, false));
    };
    const abort = (): void => giveUp(new Error('aborted'));
    underWay.add(giveUp);
    signal?.addEventListener('abort', abort, { once: true });
    const { thereMs, againMs, backMs, breaksMs, refusal } = fate;
    const fail = (code: string, why: string): void => {
      settle();
      reject(unanswered(code, why));
    };
    const broken =
      breaksMs === undefined
        ? undefined
        : scheduler.at(world.nowMs + breaksMs, process, () => fail('ECONNRESET', 'closed without an answer'));
    // Nothing stalls while bytes are sent.
    const sendMs = (request.body.length / weather.bytesPerS) * 1000;
    const stallMs = world.nowMs + sendMs + STALL_MS;
    const stalled = scheduler.at(stallMs, process, () => fail('ETIMEDOUT', 'no byte in time'));
    if (thereMs === undefined) return;
    if (againMs !== undefined) scheduler.at(world.nowMs + againMs, undefined, () => arriveAgain(request));
    scheduler.at(world.nowMs + thereMs, undefined, () => {
      if (world.isTraced) world.trace(`   ${request.method} ${request.path.split('?')[0]} is at the store`);
      const response = refusal === undefined ? server.handle(request) : refusedWith(refusal);
      if (backMs === undefined) return;
      scheduler.at(world.nowMs + backMs, process, () => {
        settle();
        resolve(answerOf(response));
      });
    });
  });
}

/**
 * A proxy that repeats a put, and later the copy of what it has so brought back, has an old state replace a newer one,
 * unless the server honours conditions on copies: nothing in capture can prevent that (docs/semantics/restarts.md).
 */
function arriveAgain(request: Request): void {
  const { server, repeated } = internet as Internet;
  const source = request.headers['x-amz-copy-source'];
  if (source !== undefined && repeated.has(decodeURIComponent(source).replace(/^\//, ''))) return;
  if (request.method === 'PUT') repeated.add(decodeURIComponent(request.path.slice(1).split('?')[0] ?? ''));
  server.handle(request);
}

function refusedWith({ status, code }: { readonly status: number; readonly code: string }): Response {
  const body = Buffer.from(`<Error><Code>${code}</Code></Error>`);
  return { status, headers: {}, body };
}

function requestOf({ method, path, headers, body }: Outgoing): Request {
  return { method, path, headers, body: Buffer.from(body ?? '') };
}

function answerOf({ status, headers, body }: Response): Answer {
  return {
    status,
    headers,
    body: new Body(body) as unknown as Answer['body'],
    textMs: 600_000,
    onceLeft: (then) => then(),
    stopSending: () => undefined,
  };
}

/** The part of a stream that its readers use. */
class Body extends EventEmitter {
  readonly #bytes: Buffer;
  #isDestroyed = false;
  #isRead = false;

  constructor(bytes: Buffer) {
    super();
    this.#bytes = bytes;
  }

  override on(name: string, listener: (...args: never[]) => void): this {
    super.on(name, listener as (...args: unknown[]) => void);
    if (name === 'data') this.resume();
    return this;
  }

  resume(): this {
    if (this.#isRead) return this;
    this.#isRead = true;
    theWorld().after(0.01, () => {
      if (this.#isDestroyed) return;
      if (this.#bytes.length > 0) this.emit('data', this.#bytes);
      this.emit('end');
    });
    return this;
  }

  destroy(error?: Error): this {
    this.#isDestroyed = true;
    if (error !== undefined) this.emit('error', error);
    return this;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    if (this.#bytes.length > 0) yield this.#bytes;
  }
}
