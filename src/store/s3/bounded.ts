// Limits requests that the SDK sends itself, without our transport: for credentials or a region, to a container's
// endpoint or to EC2's. The SDK would read any number of bytes, for as long as some arrive. This module does not look
// at their content.
import { AsyncLocalStorage } from 'node:async_hooks';
import diagnostics from 'node:diagnostics_channel';
import type { ClientRequest } from 'node:http';

/** The limits of one request. */
export interface Bounds {
  readonly bytes: number;
  readonly ms: number;
}

/** Credentials are short. The SDK itself gives up after a second in which nothing arrives. */
const BOUNDS: Bounds = { bytes: 2 ** 20, ms: 30_000 };

/** Checked by name, because the error comes from another file of the program (build.mjs). */
export const GIVEN_UP = 'GivenUp';

/** The calls whose requests are limited (Node, "Asynchronous context tracking"). */
const askers = new AsyncLocalStorage<Asker>();

interface Asker {
  readonly signal: AbortSignal | undefined;
  readonly bounds: Bounds;
  readonly giveUp: (why: Error) => void;
  givenUp: Error | undefined;
  /** Of its newest request. */
  server: string | undefined;
}

/** Published for each request once its last byte is written (Node, "Diagnostics Channel"). */
const STARTED = 'http.client.request.start';
let isWatching = false;
/** Calls of {@link bounded} that have not ended. */
let underWay = 0;
let mayGoOn = false;

/**
 * Returns the result of `act`. If one of its requests receives too much or takes too long, that request and all later
 * ones are destroyed, and this rejects with an error named {@link GIVEN_UP}. `act` may end later, or never. The same
 * error says which server gave an answer that was not understood.
 */
export async function bounded<T>(act: () => Promise<T>, bounds = BOUNDS, signal?: AbortSignal): Promise<T> {
  if (!isWatching) {
    isWatching = true;
    diagnostics.subscribe(STARTED, (message) => bind((message as { request: ClientRequest }).request));
  }
  underWay += 1;
  try {
    return await new Promise((resolve, reject) => {
      const asker: Asker = { bounds, signal, giveUp: reject, givenUp: undefined, server: undefined };
      void askers.run(asker, () => act().then(resolve, (error) => reject(named(error, asker.server))));
    });
  } catch (error) {
    // It may go on, and its requests must be known.
    if (error instanceof Error && error.name === GIVEN_UP) mayGoOn = true;
    throw error;
  } finally {
    underWay -= 1;
    // Before Node 24, every promise and every request of the process costs more until then.
    if (underWay === 0 && !mayGoOn) askers.disable();
  }
}

/** The signal of the call that this runs in: once it aborts, nobody waits for what the call has started. */
export function signalOfCall(): AbortSignal | undefined {
  return askers.getStore()?.signal;
}

/** The server that the call which this runs in has asked last; undefined if it has asked none. */
export function serverOfCall(): string | undefined {
  return askers.getStore()?.server;
}

function bind(request: ClientRequest): void {
  const asker = askers.getStore();
  if (asker === undefined) return;
  const { bytes, ms } = asker.bounds;
  const server = serverOf(request);
  asker.server = server;
  // The SDK retries.
  if (asker.givenUp !== undefined) request.destroy(asker.givenUp);
  const giveUp = (why: string): void => {
    asker.givenUp ??= newGivenUp(server, why);
    asker.giveUp(asker.givenUp);
    request.destroy(asker.givenUp);
  };
  const timer = setTimeout(() => giveUp(`no whole answer in ${ms / 1000} s`), ms);
  let left = bytes;
  // Counts all bytes, including headers and 1xx answers.
  const count = ({ length }: Buffer): void => {
    left -= length;
    if (left < 0) giveUp(`its answer has more than ${bytes} bytes`);
  };
  const { socket } = request;
  socket?.on('data', count);
  request.once('close', () => {
    clearTimeout(timer);
    socket?.off('data', count);
  });
}

function serverOf(request: ClientRequest): string {
  return `${request.protocol}//${String(request.getHeader('host'))}`;
}

/** The SDK's errors about the content of an answer do not name the server. */
function named(error: unknown, server: string | undefined): unknown {
  const isAboutContent = error instanceof TypeError || error instanceof SyntaxError;
  if (server === undefined || !isAboutContent) return error;
  return newGivenUp(server, `its answer is not understood (${error.message})`);
}

function newGivenUp(server: string, why: string): Error {
  return Object.assign(new Error(`${server}: ${why}`), { name: GIVEN_UP });
}
