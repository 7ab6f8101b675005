// node:fs on the simulated file systems.
import { theWorld } from '../machine/world.ts';
import { fileCalls } from './file-calls.ts';
import * as promises from './fs-promises.ts';

export { constants } from './file-calls.ts';
export { promises };

type Calls = typeof fileCalls;
type Rest<Call> = Call extends (process: never, ...rest: infer Args) => infer Result
  ? (...args: Args) => Result
  : never;

function sync<Name extends keyof Calls>(name: Name): Rest<Calls[Name]> {
  const call = fileCalls[name] as (...args: unknown[]) => unknown;
  return ((...args: unknown[]) => theWorld().call((process) => call(process, ...args))) as Rest<Calls[Name]>;
}

/** The call with a callback, for promisify(). */
function withCallback<Name extends keyof Calls>(name: Name): (...args: unknown[]) => void {
  const call = fileCalls[name] as (...args: unknown[]) => unknown;
  return (...args) => {
    const then = args.pop() as (error: unknown, result?: unknown) => void;
    theWorld()
      .callLater((process) => call(process, ...args))
      .then(
        (result) => then(null, result),
        (error: unknown) => then(error),
      );
  };
}

export const openSync = sync('open');
export const statSync = sync('stat');
export const lstatSync = sync('lstat');
export const fstatSync = sync('fstat');
export const closeSync = sync('close');
export const readSync = sync('read');
export const writeSync = sync('write');
export const ftruncateSync = sync('ftruncate');
export const fsyncSync = sync('fsync');
export const fdatasyncSync = sync('fdatasync');
export const readFileSync = sync('readFile');
export const writeFileSync = sync('writeFile');
export const readdirSync = sync('readdir');
/** Reads all names at once. */
export function opendirSync(
  path: string,
  { encoding }: { readonly encoding?: BufferEncoding } = {},
): { readonly readSync: () => unknown; readonly closeSync: () => void } {
  const entries = readdirSync(path, { withFileTypes: true, encoding }).values();
  return { readSync: () => entries.next().value ?? null, closeSync: () => undefined };
}
export const mkdirSync = sync('mkdir');
export const mkdtempSync = sync('mkdtemp');
export const renameSync = sync('rename');
export const linkSync = sync('link');
export const symlinkSync = sync('symlink');
export const unlinkSync = sync('unlink');
export const rmdirSync = sync('rmdir');
export const rmSync = sync('rm');
export const readlinkSync = sync('readlink');
export const realpathSync = Object.assign(sync('realpath'), { native: sync('realpath') });
export const accessSync = sync('access');
export const chmodSync = sync('chmod');
export const fchmodSync = sync('fchmod');
export const statfsSync = sync('statfs');
export function existsSync(path: string): boolean {
  try {
    return statSync(path) !== undefined;
  } catch {
    return false;
  }
}

export const open = withCallback('open');
export const write = withCallback('write');
export const fdatasync = withCallback('fdatasync');
export const fsync = withCallback('fsync');
export const fstat = withCallback('fstat');
export const close = withCallback('close');
/** util.promisify(fs.read) resolves to an object. */
export const read = Object.assign(withCallback('read'), {
  [Symbol.for('nodejs.util.promisify.custom')]: async (...args: unknown[]) => {
    const call = fileCalls.read as (...args: unknown[]) => number;
    return { bytesRead: await theWorld().callLater((process) => call(process, ...args)) };
  },
});

/** fs.watch() reports nothing: its users also poll. */
export function watch(): { on(): void; close(): void } {
  return { on: () => undefined, close: () => undefined };
}
