// A Unix socket of which we want to know the owner before we connect. Where others may rename, its name may mean another
// socket a moment later; so it is held, and connected to as what it is.
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
