// The calls of libc that Node does not have, through koffi: no compiler is needed on the node. Each wrapper
// returns what the call returns, or throws an Error with the errno's name in `code`, as node:fs does.
import os from 'node:os';
import koffi from 'koffi';

const libc = koffi.load(null);

/** Errno names by number, for this platform; of two names for one number (EAGAIN, EWOULDBLOCK) the first. */
const ERRNO_NAMES = new Map(
  Object.entries(os.constants.errno)
    .toReversed()
    .map(([name, number]) => [number, name]),
);

/** The name of the calling thread's last errno. Must be read before any other native call. */
export function lastErrno(): string {
  return ERRNO_NAMES.get(koffi.errno()) ?? `errno ${koffi.errno()}`;
}

/** An Error as node:fs throws it. */
export function systemError(call: string, code: string, path?: string): Error {
  const where = path === undefined ? '' : ` '${path}'`;
  return Object.assign(new Error(`${code}: ${call}${where}`), { code, syscall: call, path });
}

/** Declares a libc function on first use, so that a start pays only for what it calls. */
export function libcFunction<Args extends readonly unknown[]>(prototype: string): (...args: Args) => number {
  let bound: ((...args: Args) => number) | undefined;
  return (...args) => {
    bound ??= libc.func(prototype) as unknown as (...args: Args) => number;
    return bound(...args);
  };
}
