// Errors as node:fs throws them.
import os from 'node:os';

export function failure(code: string, call: string, path?: string): Error {
  const errno = -((os.constants.errno as Readonly<Record<string, number>>)[code] ?? 0);
  const where = path === undefined ? '' : ` '${path}'`;
  return Object.assign(new Error(`${code}: ${call}${where}`), { code, errno, syscall: call, path });
}
