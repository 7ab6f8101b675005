// One SFTP session (draft-ietf-secsh-filexfer-02, and OpenSSH's PROTOCOL, section 4): its requests as promises. Many are
// under way at once. When the connection breaks, or the server stops answering, all of them fail with `Dropped`. It retries
// nothing.
import type { Socket } from 'node:net';
import type { Attributes, Client, FileEntry, SFTPWrapper } from 'ssh2';
import { clockMs, startTimer } from '../../native/clock.ts';

/** SFTP's status codes (section 7). OpenSSH answers `failure` to all that has no code: a full disk, a name that is taken. */
export const STATUS = { eof: 1, missing: 2, denied: 3, failure: 4, badMessage: 5, unsupported: 8 } as const;

/** The server's refusal of a request. */
export class Refused extends Error {
  readonly status: number;

  constructor(operation: string, status: number, text: string) {
    super(`${operation}: ${text}`);
    this.name = 'Refused';
    this.status = status;
  }
}

/** The answer will never come. The server may have obeyed. */
export class Dropped extends Error {
  constructor(why: string) {
    super(why);
    this.name = 'Dropped';
  }
}

export function hasStatus(error: unknown, status: number): boolean {
  return error instanceof Refused && error.status === status;
}

/** Undefined if the server says that there is no such file; ENOTDIR counts, too (sftp-server.c, errno_to_portable). */
export function unlessMissing(error: unknown): undefined {
  if (!hasStatus(error, STATUS.missing)) throw error;
}

/** For what others may have made: what they do not let us read or remove stays. */
export function unlessRefused(error: unknown): undefined {
  if (!(error instanceof Refused)) throw error;
}

export interface Attrs {
  readonly sizeBytes: number;
  /** Whole seconds: version 3 has no more. */
  readonly mtimeS: number;
  /** With the bits of the type of file. */
  readonly mode: number;
}

export type Kind = 'file' | 'directory' | 'link' | 'other';

/** inode(7), S_IFMT. */
const TYPE_MASK = 0o170_000;
const KINDS: Readonly<Record<number, Kind>> = {
  0o100_000: 'file',
  0o040_000: 'directory',
  0o120_000: 'link',
};

export function kindOf({ mode }: Pick<Attrs, 'mode'>): Kind {
  return KINDS[mode & TYPE_MASK] ?? 'other';
}

export interface Entry extends Attrs {
  readonly name: string;
}

/** A server answers most requests in milliseconds. One that is silent for so long is gone, or its disk hangs. */
const SILENT_MS = 30_000;
/** A sync or a copy of a large file may take minutes, and what was asked after it waits. */
const LONG_MS = 300_000;
const LOOK_MS = 1000;

export const HARD_LINK = 'hardlink@openssh.com';
export const POSIX_RENAME = 'posix-rename@openssh.com';
const FSYNC = 'fsync@openssh.com';
const COPY_DATA = 'copy-data';
const STATVFS = 'statvfs@openssh.com';
/** All servers take this much in one request. OpenSSH takes 256 KiB with all that belongs to it. */
const MOST_PIECE_BYTES = 128 * 1024;

type Done<T> = (error: (Error & { code?: unknown }) | null | undefined, value?: T) => void;

export class Session {
  /** How many bytes one read or write has at most. */
  readonly pieceBytes: number;
  readonly #client: Client;
  readonly #sftp: SFTPWrapper;
  readonly #socket: Socket;
  readonly #waiting = new Map<(error: Dropped) => void, number>();
  #why: string | undefined;
  #lastMs = clockMs();
  #leftBytes = 0;
  #isWatching = false;

  constructor(client: Client, sftp: SFTPWrapper, socket: Socket) {
    this.#client = client;
    this.#sftp = sftp;
    this.#socket = socket;
    const drop = (why: string) => (): void => this.#drop(why);
    client.on('close', drop('the connection was closed'));
    client.on('error', (error) => this.#drop(error.message));
    sftp.on('end', drop('the server ended the session'));
    sftp.on('close', drop('the server closed the session'));
    sftp.on('error', (error: Error) => this.#drop(error.message));
    this.pieceBytes = Math.min(
      MOST_PIECE_BYTES,
      Number(Reflect.get(sftp, '_maxReadLen')),
      Number(Reflect.get(sftp, '_maxWriteLen')),
    );
    this.#keepProcess(false);
    // ssh2 calls a session ready also if it has ended while the server was asked for its limits.
    if (socket.destroyed || Reflect.get(sftp, 'readable') === false) this.#drop('the connection was closed');
  }

  get isOpen(): boolean {
    return this.#why === undefined;
  }

  /** True if the server has this extension, which it says at the start. */
  has(extension: string): boolean {
    const extensions: unknown = Reflect.get(this.#sftp, '_extensions');
    return typeof extensions === 'object' && extensions !== null && Object.hasOwn(extensions, extension);
  }

  get copies(): boolean {
    return this.has(COPY_DATA);
  }

  open(path: string, flags: 'r' | 'r+' | 'w' | 'wx', mode = 0o600): Promise<Buffer> {
    return this.#ask<Buffer>(`open ${path}`, (done) => this.#sftp.open(path, flags, mode, done));
  }

  async close(handle: Buffer): Promise<void> {
    await this.#ask<undefined>('close', (done) => this.#sftp.close(handle, done));
  }

  /** Fewer bytes than asked for: the file ends there, or the server has no more at the moment. None: it ends here. */
  async read(handle: Buffer, into: Buffer, position: number): Promise<number> {
    if (into.length === 0) return 0;
    return this.#ask<number>('read', (done) =>
      this.#sftp.read(handle, into, 0, into.length, position, (error, bytes) => done(error, bytes)),
    );
  }

  /** At most {@link pieceBytes}. The bytes may be changed once this has returned its promise. */
  async write(handle: Buffer, bytes: Uint8Array, position: number): Promise<void> {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    await this.#ask<undefined>('write', (done) =>
      this.#sftp.write(handle, buffer, 0, buffer.length, position, (error) => done(error)),
    );
  }

  /** Follows links. */
  async stat(path: string): Promise<Attrs> {
    return attrsOf(await this.#ask<Attributes>(`stat ${path}`, (done) => this.#sftp.stat(path, done)));
  }

  async lstat(path: string): Promise<Attrs> {
    return attrsOf(await this.#ask<Attributes>(`lstat ${path}`, (done) => this.#sftp.lstat(path, done)));
  }

  async fstat(handle: Buffer): Promise<Attrs> {
    return attrsOf(await this.#ask<Attributes>('fstat', (done) => this.#sftp.fstat(handle, done)));
  }

  async setMtime(handle: Buffer, mtimeS: number): Promise<void> {
    await this.#ask<undefined>('fsetstat', (done) => this.#sftp.futimes(handle, mtimeS, mtimeS, done));
  }

  /** Does nothing if the server cannot sync. */
  async sync(handle: Buffer): Promise<void> {
    if (!this.has(FSYNC)) return;
    await this.#ask<undefined>('fsync', (done) => this.#sftp.ext_openssh_fsync(handle, done), LONG_MS);
  }

  /** A second name for a file. Refused with `failure` if the name is taken. */
  async link(from: string, to: string): Promise<void> {
    await this.#ask<undefined>(`link ${to}`, (done) => this.#sftp.ext_openssh_hardlink(from, to, done));
  }

  /** Replaces `to`, atomically (rename(2)). */
  async rename(from: string, to: string): Promise<void> {
    await this.#ask<undefined>(`rename ${to}`, (done) => this.#sftp.ext_openssh_rename(from, to, done));
  }

  async remove(path: string): Promise<void> {
    await this.#ask<undefined>(`remove ${path}`, (done) => this.#sftp.unlink(path, done));
  }

  async makeDirectory(path: string, mode: number): Promise<void> {
    await this.#ask<undefined>(`mkdir ${path}`, (done) => this.#sftp.mkdir(path, { mode }, done));
  }

  /** Without `.` and `..`; in no order. */
  async *entries(path: string): AsyncGenerator<readonly Entry[]> {
    const handle = await this.#ask<Buffer>(`opendir ${path}`, (done) => this.#sftp.opendir(path, done));
    try {
      for (;;) {
        const found = await this.#ask<FileEntry[]>('readdir', (done) =>
          this.#sftp.readdir(handle, done),
        ).catch((error: unknown) => {
          if (!hasStatus(error, STATUS.eof)) throw error;
          return undefined;
        });
        if (found === undefined) return;
        yield found
          .filter(({ filename }) => filename !== '.' && filename !== '..')
          .map(({ filename, attrs }) => ({ name: filename, ...attrsOf(attrs) }));
      }
    } finally {
      this.close(handle).catch(() => undefined);
    }
  }

  /** Copies inside the server. */
  async copy(from: Buffer, to: Buffer, at: number, sizeBytes: number): Promise<void> {
    const request: unknown = Reflect.get(this.#sftp, 'ext_copy_data');
    if (typeof request !== 'function') throw new Refused('copy-data', STATUS.unsupported, 'unknown');
    await this.#ask<undefined>(
      'copy-data',
      (done) => request.call(this.#sftp, from, at, sizeBytes, to, at, done),
      LONG_MS,
    );
  }

  /** Free bytes on the file system of this path for its user; undefined if the server does not say. */
  async freeBytes(path: string): Promise<number | undefined> {
    if (!this.has(STATVFS)) return undefined;
    const found = await this.#ask<object>('statvfs', (done) =>
      this.#sftp.ext_openssh_statvfs(path, done as Parameters<SFTPWrapper['ext_openssh_statvfs']>[1]),
    );
    return Number(Reflect.get(found, 'f_bavail')) * Number(Reflect.get(found, 'f_frsize'));
  }

  /** Ends the connection: requests that are under way fail. */
  end(): void {
    this.#client.end();
    this.#drop('the store was closed');
  }

  #ask<T>(operation: string, send: (done: Done<T>) => void, withinMs = SILENT_MS): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#why !== undefined) {
        reject(new Dropped(this.#why));
        return;
      }
      if (this.#waiting.size === 0) {
        this.#lastMs = clockMs();
        this.#keepProcess(true);
      }
      this.#waiting.set(reject, withinMs);
      this.#watch();
      const settle: Done<T> = (error, value) => {
        this.#lastMs = clockMs();
        this.#waiting.delete(reject);
        if (this.#waiting.size === 0) this.#keepProcess(false);
        if (error === undefined || error === null) resolve(value as T);
        else if (typeof error.code === 'number') reject(new Refused(operation, error.code, error.message));
        else reject(new Dropped(error.message));
      };
      try {
        send(settle);
      } catch (error) {
        settle(error instanceof Error ? error : new Error(String(error)));
      }
    });
  }

  /** An idle connection does not keep the process. */
  #keepProcess(isNeeded: boolean): void {
    // A socket that is closed would remember each call, for a connection that never comes.
    if (this.#socket.destroyed) return;
    if (isNeeded) this.#socket.ref();
    else this.#socket.unref();
  }

  /** Ends a session whose server is silent while something is asked of it. What it takes from us is a sign of life, too. */
  #watch(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    startTimer(LOOK_MS, () => {
      this.#isWatching = false;
      if (this.#waiting.size === 0 || this.#why !== undefined) return;
      const leftBytes = this.#socket.writableLength;
      if (leftBytes < this.#leftBytes) this.#lastMs = clockMs();
      this.#leftBytes = leftBytes;
      const longestMs = Math.max(...this.#waiting.values());
      if (clockMs() - this.#lastMs > longestMs) this.#drop(`no answer for ${longestMs / 1000} s`);
      else this.#watch();
    });
  }

  #drop(why: string): void {
    if (this.#why !== undefined) return;
    this.#why = why;
    this.#socket.destroy();
    const waiting = [...this.#waiting.keys()];
    this.#waiting.clear();
    for (const reject of waiting) reject(new Dropped(why));
  }
}

function attrsOf({ size, mtime, mode }: Attributes): Attrs {
  return { sizeBytes: size, mtimeS: mtime, mode };
}
