// A server, or what stands before it, that sends a byte now and then: no stall, and no answer either. A socket on which
// an answer comes more slowly than any link is ended like one that stalls, and the request is tried again.
import { ClientRequest } from 'node:http';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import { SLOWEST_BYTES_PER_S } from '../contract/store.ts';

/** A limit is only looked at so often. */
const LOOKS = 3;

/** Ends `stream` when it brings less than 100 bytes a second of one answer for `limitMs`, but more than none. */
export function endWhenSlow<T extends Duplex>(stream: T, limitMs: number): T {
  if (!(stream instanceof net.Socket)) return stream;
  const socket: net.Socket = stream;
  let before = { request: undefined as ClientRequest | undefined, read: 0, written: 0 };
  let slowLooks = 0;
  const look = (): void => {
    const now = { request: requestOn(socket), read: socket.bytesRead, written: socket.bytesWritten };
    const bytes = now.read - before.read;
    const isAnswer =
      now.request !== undefined && now.request === before.request && now.written === before.written;
    // Of nothing at all the socket's own timeout takes care.
    const isSlow = bytes > 0 && bytes < (SLOWEST_BYTES_PER_S * limitMs) / LOOKS / 1000;
    slowLooks = isAnswer && isSlow && !mayTakeLong(now.request) ? slowLooks + 1 : 0;
    before = now;
    if (slowLooks < LOOKS) return;
    socket.destroy(Object.assign(new Error('the answer comes a few bytes at a time'), { code: 'ETIMEDOUT' }));
  };
  const timer = setInterval(look, limitMs / LOOKS).unref();
  socket.once('close', () => clearInterval(timer));
  return stream;
}

/** Node sets it while a request has the socket (`_httpMessage`, not in the types). */
function requestOn(socket: net.Socket): ClientRequest | undefined {
  const request: unknown = Reflect.get(socket, '_httpMessage');
  return request instanceof ClientRequest ? request : undefined;
}

/** S3 sends a space now and then while it completes an upload or copies (CompleteMultipartUpload, CopyObject). */
function mayTakeLong(request: ClientRequest | undefined): boolean {
  return request?.method === 'POST' || request?.getHeader('x-amz-copy-source') !== undefined;
}
