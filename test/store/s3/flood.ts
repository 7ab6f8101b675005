// A server that sends without end.
import type { Socket } from 'node:net';

const MIB = 2 ** 20;
/** Should nobody stop it. */
const MOST_BYTES = 256 * MIB;

/** Bytes that were given to the kernel, or wait for it. */
export interface Flood {
  sentBytes: number;
}

/** As much as the other side takes, until it has closed the connection. */
export function flood(socket: Socket, piece: Buffer, sent: Flood): void {
  socket.on('error', () => undefined);
  const more = (): void => {
    while (!socket.destroyed && sent.sentBytes < MOST_BYTES) {
      sent.sentBytes += piece.length;
      if (!socket.write(piece)) return;
    }
    socket.destroy();
  };
  socket.on('drain', more);
  more();
}
