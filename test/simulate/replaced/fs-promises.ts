// node:fs/promises on the simulated file systems: calls take effect some time later, in any order.
import type { SimProcess } from '../machine/process.ts';
import { theWorld } from '../machine/world.ts';
import { fileCalls } from './file-calls.ts';

export { constants } from './file-calls.ts';

type Calls = typeof fileCalls;
type Later<Call> = Call extends (process: never, ...rest: infer Args) => infer Result
  ? (...args: Args) => Promise<Result>
  : never;

function later<Name extends keyof Calls>(name: Name): Later<Calls[Name]> {
  const call = fileCalls[name] as (process: SimProcess, ...args: unknown[]) => unknown;
  return ((...args: unknown[]) =>
    theWorld().callLater((process) => call(process, ...args))) as unknown as Later<Calls[Name]>;
}

class FileHandle {
  readonly fd: number;
  #position = 0;
  #closing: Promise<void> | undefined;

  constructor(fd: number) {
    this.fd = fd;
  }

  async writeFile(content: Uint8Array | string): Promise<void> {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    await this.#write(bytes);
  }

  async appendFile(content: Uint8Array | string): Promise<void> {
    await this.writeFile(content);
  }

  async write(
    bytes: Uint8Array,
    offset = 0,
    length = bytes.length - offset,
  ): Promise<{ bytesWritten: number }> {
    await this.#write(bytes.subarray(offset, offset + length));
    return { bytesWritten: length };
  }

  async read(
    target: Uint8Array,
    offset = 0,
    length = target.length - offset,
    position: number | null = null,
  ): Promise<{ bytesRead: number; buffer: Uint8Array }> {
    const at = position ?? this.#position;
    const bytesRead = await later('read')(this.fd, target, offset, length, at);
    if (position === null) this.#position += bytesRead;
    return { bytesRead, buffer: target };
  }

  async sync(): Promise<void> {
    await later('fsync')(this.fd);
  }

  async datasync(): Promise<void> {
    await later('fsync')(this.fd);
  }

  stat(options?: { readonly bigint?: boolean }): Promise<unknown> {
    return later('fstat')(this.fd, options);
  }

  async chmod(mode: number): Promise<void> {
    await later('fchmod')(this.fd, mode);
  }

  async truncate(length: number): Promise<void> {
    await later('ftruncate')(this.fd, length);
  }

  /** A second call waits for the first. */
  close(): Promise<void> {
    return (this.#closing ??= later('close')(this.fd));
  }

  async #write(bytes: Uint8Array): Promise<void> {
    // A kill between the two parts leaves the first one.
    const half = bytes.length > 1 && theWorld().random.chance(0.2) ? bytes.length >> 1 : bytes.length;
    for (const part of [bytes.subarray(0, half), bytes.subarray(half)]) {
      if (part.length === 0) continue;
      const at = this.#position;
      this.#position += part.length;
      await later('write')(this.fd, part, 0, part.length, at);
    }
  }
}

export async function open(path: string, flags?: string | number, mode?: number): Promise<FileHandle> {
  return new FileHandle(await later('open')(path, flags, mode));
}

export const stat = later('stat');
export const lstat = later('lstat');
export const readFile = later('readFile');
export const writeFile = later('writeFile');
export const readdir = later('readdir');
/** Reads all names at once. */
export const opendir = (
  path: string,
  { encoding }: { readonly encoding?: BufferEncoding } = {},
): Promise<unknown> => readdir(path, { withFileTypes: true, encoding });
export const mkdir = later('mkdir');
export const mkdtemp = later('mkdtemp');
export const rename = later('rename');
export const link = later('link');
export const symlink = later('symlink');
export const unlink = later('unlink');
export const rmdir = later('rmdir');
export const rm = later('rm');
export const readlink = later('readlink');
export const realpath = later('realpath');
export const access = later('access');
export const chmod = later('chmod');
export const statfs = later('statfs');
