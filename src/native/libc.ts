// Calls of libc that Node does not offer, through koffi: no compiler is needed on the node. Each wrapper returns what
// the call returns, or throws an Error with the name of the errno in `code`, as node:fs does.
import os from 'node:os';
import type koffi from 'koffi';
import type { LibraryHandle } from 'koffi';
import { loadBinary } from './binary.ts';

let loaded: { readonly koffi: typeof koffi; readonly libc: LibraryHandle } | undefined;

/** Loads koffi on first use: a process that calls nothing does not pay for it. */
function native(): { readonly koffi: typeof koffi; readonly libc: LibraryHandle } {
  if (loaded !== undefined) return loaded;
  const module = loadBinary('koffi') as typeof koffi;
  loaded = { koffi: module, libc: module.load(null) };
  return loaded;
}

/** Errno names by number on this platform. If a number has two names (EAGAIN, EWOULDBLOCK), the first one. */
const ERRNO_NAMES = new Map(
  Object.entries(os.constants.errno)
    .toReversed()
    .map(([name, number]) => [number, name]),
);

/** The name of the last errno of the calling thread. Read it before any other native call. */
export function lastErrno(): string {
  const number = native().koffi.errno();
  return ERRNO_NAMES.get(number) ?? `errno ${number}`;
}

/** An Error as node:fs throws it. */
export function systemError(call: string, code: string, path?: string): Error {
  const where = path === undefined ? '' : ` '${path}'`;
  return Object.assign(new Error(`${code}: ${call}${where}`), { code, syscall: call, path });
}

/** A function of libc as koffi declares it: `async` calls it in another thread. */
export function bindLibc(prototype: string): ReturnType<LibraryHandle['func']> {
  return native().libc.func(prototype);
}

/** A function of libc that is declared on first use, so that a start pays only for what it calls. */
export function libcFunction<Args extends readonly unknown[]>(prototype: string): (...args: Args) => number {
  let bound: ((...args: Args) => number) | undefined;
  return (...args) => {
    bound ??= native().libc.func(prototype) as unknown as (...args: Args) => number;
    return bound(...args);
  };
}

/** The address of the first byte. */
export function addressOf(bytes: Uint8Array): bigint {
  return native().koffi.address(bytes);
}
