// Which process is at the other end of a unix socket. The kernel says so, and nobody can fake it.
import type { Socket } from 'node:net';
import { lastErrno, libcFunction, systemError } from './libc.ts';

const getsockopt = libcFunction<
  [fd: number, level: number, option: number, value: Uint32Array, lengthBytes: Uint32Array]
>('int getsockopt(int, int, int, void*, void*)');

const SOL_SOCKET = 1;
/** The same number on every architecture that Node runs on, except POWER (asm/socket.h). */
const SO_PEERCRED = process.arch === 'ppc64' ? 21 : 17;
/** struct ucred: pid, uid, gid, 32 bits each (unix(7)). */
const UCRED_FIELDS = 3;

export interface Peer {
  readonly pid: number;
  readonly uid: number;
}

/** The process that connected, and its user at that time (unix(7), SO_PEERCRED). */
export function peerOf(fd: number): Peer {
  // In native byte order.
  const credentials = new Uint32Array(UCRED_FIELDS);
  const lengthBytes = Uint32Array.of(credentials.byteLength);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, credentials, lengthBytes) !== 0)
    throw systemError('getsockopt', lastErrno());
  const [pid = 0, uid = 0] = credentials;
  return { pid, uid };
}

/** The descriptor of a socket, which Node offers in no other way. Throws if the other end is gone. */
export function descriptorOf(socket: Socket): number {
  const { _handle: handle } = socket as unknown as { readonly _handle: { readonly fd: number } | null };
  if (handle === null) throw new Error('the client is gone');
  return handle.fd;
}
