// Finds other captures on this machine that hear the same notice. Each shows itself by an abstract socket (unix(7)):
// all users see it, in any mount namespace, and it goes with its process, however that ends.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import net from 'node:net';

export interface Presence {
  /** We are not here any more. True if nobody else is; one in another network namespace is not seen. */
  leave(): boolean;
}

/** `of` is what the neighbours have in common. Never fails, and does not keep the process alive. */
export function showPresence(of: string): Presence {
  const mine = `capture-${of}-${randomUUID()}`;
  const server = net.createServer((socket) => socket.destroy());
  server.on('error', () => undefined);
  server.listen(`\0${mine}`).unref();
  return {
    leave: () => {
      server.close();
      return !namesInUse().some((name) => name.startsWith(`@capture-${of}-`) && !name.startsWith(`@${mine}`));
    },
  };
}

/** proc(5), /proc/net/unix: the last column; an abstract name begins with @, and each NUL of it is an @. */
function namesInUse(): readonly string[] {
  try {
    const lines = fs.readFileSync('/proc/net/unix', 'latin1').split('\n');
    return lines.map((line) => line.trim().split(' ').at(-1) ?? '');
  } catch {
    return [];
  }
}
