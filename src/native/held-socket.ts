// Asks who owns a Unix socket, and then connects to that same socket. A name alone is not enough: in a directory where
// others may rename, it may lead to another socket a moment later.
import fs from 'node:fs';
import { encodePath } from '../model/path.ts';
import { O_PATH } from './beneath.ts';

export interface HeldSocket {
  /** The owner's. */
  readonly uid: number;
  /** To connect to; at most 108 bytes long, as unix(7) demands. */
  readonly path: string;
  /** Call it once the connection stands, or is given up. */
  release(): void;
}

/** Throws as open(2) does. */
export function holdSocket(name: string): HeldSocket {
  const fd = fs.openSync(encodePath(name), O_PATH);
  // The link leads to the very file, whatever its name means by then (proc_pid_fd(5)).
  return { uid: fs.fstatSync(fd).uid, path: `/proc/self/fd/${fd}`, release: () => fs.closeSync(fd) };
}
