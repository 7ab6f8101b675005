// A TCP relay on loopback that fails on request, as a network does to connections, below HTTP.
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export type NetworkFault =
  /** Each connection is reset as soon as it is made. */
  | { readonly kind: 'refuse' }
  /** A connection is reset once it has carried this many bytes of requests. */
  | { readonly kind: 'reset'; readonly afterBytes: number }
  /** Nothing is relayed any more, in neither direction; connections stay open until the fault is lifted. */
  | { readonly kind: 'stall' }
  /** Each piece of a request is delayed. */
  | { readonly kind: 'latency'; readonly ms: number }
  /** Answers come one byte at a time, at this interval. */
  | { readonly kind: 'trickle'; readonly everyMs: number }
  /** All connections together carry no more bytes of requests than this. */
  | { readonly kind: 'rate'; readonly bytesPerSecond: number }
  /** Each request is answered with 503 SlowDown once its first bytes are here. Then the connection ends. */
  | { readonly kind: 'busy' };

const BUSY_BODY = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code></Error>';
const BUSY_ANSWER =
  'HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\n' +
  `Content-Length: ${BUSY_BODY.length}\r\nConnection: close\r\n\r\n${BUSY_BODY}`;

export interface FaultProxy {
  readonly url: string;
  fault: NetworkFault | undefined;
  /** How many connections a fault has hit. */
  readonly hits: number;
  stop(): Promise<void>;
}

/** Relays a free port of 127.0.0.1 to the port of `target`. */
export async function startFaultProxy(target: string): Promise<FaultProxy> {
  const port = Number(new URL(target).port);
  const sockets = new Set<net.Socket>();
  const state = { fault: undefined as NetworkFault | undefined, hits: 0, freeAtMs: 0 };
  const hit = (client: net.Socket): void => {
    state.hits += 1;
    client.resetAndDestroy();
  };
  /** The delay on a link that each piece occupies for `ms` more. */
  const queued = (ms: number): number => {
    state.freeAtMs = Math.max(state.freeAtMs, performance.now()) + ms;
    return state.freeAtMs - performance.now();
  };
  const server = net.createServer({ noDelay: true }, (client) => {
    sockets.add(client);
    client.on('error', () => undefined);
    client.on('close', () => sockets.delete(client));
    if (state.fault?.kind === 'refuse') return hit(client);
    const upstream = net.connect({ port, host: '127.0.0.1', noDelay: true });
    upstream.on('error', () => client.destroy());
    upstream.on('close', () => {
      if (state.fault?.kind !== 'stall') client.destroy();
    });
    client.on('close', () => upstream.destroy());
    upstream.on('data', (bytes) => {
      const { fault } = state;
      if (fault?.kind === 'trickle') {
        state.hits += 1;
        void trickle(client, bytes, fault.everyMs);
      } else if (fault?.kind !== 'stall') client.write(bytes);
    });
    let seenBytes = 0;
    let isOver = false;
    client.on('data', (bytes) => {
      // The request may go on after its answer. Reading on keeps the connection from being reset before the answer
      // arrives.
      if (isOver) return;
      seenBytes += bytes.length;
      const { fault } = state;
      if (fault?.kind === 'busy') {
        state.hits += 1;
        isOver = true;
        return void client.end(BUSY_ANSWER);
      }
      if (fault?.kind === 'stall') {
        state.hits += 1;
        return client.pause();
      }
      if (fault?.kind === 'refuse' || (fault?.kind === 'reset' && seenBytes >= fault.afterBytes))
        return hit(client);
      if (fault?.kind !== 'latency' && fault?.kind !== 'rate') return void upstream.write(bytes);
      state.hits += 1;
      client.pause();
      return void setTimeout(
        () => {
          upstream.write(bytes);
          client.resume();
        },
        fault.kind === 'latency' ? fault.ms : queued(bytes.length / (fault.bytesPerSecond / 1000)),
      );
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get fault() {
      return state.fault;
    },
    set fault(fault) {
      if (state.fault?.kind === 'stall') for (const socket of sockets) socket.destroy();
      state.fault = fault;
    },
    get hits() {
      return state.hits;
    },
    stop: async () => {
      server.close();
      for (const socket of sockets) socket.destroy();
      await once(server, 'close');
    },
  };
}

async function trickle(to: net.Socket, bytes: Buffer, everyMs: number): Promise<void> {
  for (const byte of bytes) {
    await sleep(everyMs, undefined, { ref: false });
    if (to.destroyed) return;
    to.write(Buffer.of(byte));
  }
}
