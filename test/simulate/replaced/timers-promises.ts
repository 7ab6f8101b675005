// node:timers/promises, in virtual time.
import { theWorld } from '../machine/world.ts';
import { clearTimeout, setTimeout as startTimer } from './globals.ts';

interface WaitOptions {
  readonly signal?: AbortSignal | undefined;
}

class AbortError extends Error {
  readonly code = 'ABORT_ERR';

  constructor(cause: unknown) {
    super('The operation was aborted', { cause });
    this.name = 'AbortError';
  }
}

export function setTimeout<T = void>(ms?: number, value?: T, { signal }: WaitOptions = {}): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(new AbortError(signal.reason));
    const aborted = (): void => {
      clearTimeout(timer);
      reject(new AbortError(signal?.reason));
    };
    const timer = startTimer(() => {
      signal?.removeEventListener('abort', aborted);
      resolve(value as T);
    }, ms);
    signal?.addEventListener('abort', aborted, { once: true });
  });
}

export function setImmediate<T = void>(value?: T): Promise<T> {
  return new Promise((resolve) => {
    theWorld().after(0.001, () => resolve(value as T));
  });
}
