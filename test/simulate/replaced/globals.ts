// Node's globals: in the bundle, each free use of one of these names is an import of this file (esbuild's `inject`).
// All waits of the program come through here.
import { Dead } from '../machine/process.ts';
import { pidNow, theWorld, timesNow } from '../machine/world.ts';
import type { Event } from '../machine/scheduler.ts';
import { isConnected, sendToParent } from '../machine/channels.ts';
import { type Listener, listenersOf } from '../machine/listeners.ts';

const real = globalThis.process;
const RealDate = globalThis.Date;
const RealAbortSignal = globalThis.AbortSignal;

/** Like a timer of Node. unref() does nothing here, as no process ends by itself. */
class SimTimer {
  #event: Event | undefined;
  readonly #act: () => void;
  readonly #ms: number;
  readonly #repeats: boolean;

  constructor(act: () => void, ms: number, repeats: boolean) {
    this.#act = act;
    // setTimeout takes 1 for a delay that is below 1, too long, or no number.
    this.#ms = ms >= 1 && ms <= 2 ** 31 - 1 ? ms : 1;
    this.#repeats = repeats;
    this.#arm();
  }

  cancel(): void {
    if (this.#event !== undefined) this.#event.isCancelled = true;
    this.#event = undefined;
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }

  hasRef(): boolean {
    return true;
  }

  refresh(): this {
    this.cancel();
    this.#arm();
    return this;
  }

  #arm(): void {
    const world = theWorld();
    if (!world.process.isAlive) return;
    this.#event = world.after(this.#ms + 0.3 * world.random.next(), () => {
      this.#event = undefined;
      if (this.#repeats) this.#arm();
      this.#act();
    });
  }
}

type Callback = (...args: unknown[]) => void;

export function setTimeout(act: Callback, ms = 1, ...args: unknown[]): SimTimer {
  return new SimTimer(() => act(...args), ms, false);
}

export function setInterval(act: Callback, ms = 1, ...args: unknown[]): SimTimer {
  return new SimTimer(() => act(...args), ms, true);
}

export function setImmediate(act: Callback, ...args: unknown[]): SimTimer | Event {
  return theWorld().after(0.001, () => act(...args));
}

export function clearTimeout(timer: unknown): void {
  if (timer instanceof SimTimer) timer.cancel();
}

export function clearInterval(timer: unknown): void {
  clearTimeout(timer);
}

export function clearImmediate(event: Event | undefined): void {
  if (event !== undefined) event.isCancelled = true;
}

export const performance = { now: (): number => timesNow().upMs };

class SimDate extends RealDate {
  constructor(...args: unknown[]) {
    super(...((args.length === 0 ? [timesNow().timeOfDayMs] : args) as [number]));
  }

  static override now(): number {
    return timesNow().timeOfDayMs;
  }
}
export const Date = SimDate;

class SimAbortSignal extends RealAbortSignal {
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof RealAbortSignal;
  }

  static override timeout(ms: number): globalThis.AbortSignal {
    const controller = new AbortController();
    setTimeout(() => controller.abort(new DOMException('timeout', 'TimeoutError')), ms);
    return controller.signal;
  }
}
export const AbortSignal = SimAbortSignal;

/** Math.random() */
export const seededRandom = (): number => theWorld().random.next();

/** The environment of all processes of a world. */
export const environment: Record<string, string> = {
  PATH: '/usr/bin:/bin',
  TMPDIR: '/tmp',
  HOME: '/root',
  AWS_ACCESS_KEY_ID: 'key',
  AWS_SECRET_ACCESS_KEY: 'secret',
  AWS_REGION: 'us-east-1',
  AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9000',
};

const listening = (name: string): Set<Listener> => listenersOf(theWorld().process, name);

export const process = Object.assign(Object.create(real) as NodeJS.Process, {
  env: environment,
  cpuUsage: () => ({ user: 0, system: 0 }),
  memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
  hrtime: Object.assign(
    (): [number, number] => {
      const { upMs } = timesNow();
      return [Math.floor(upMs / 1000), Math.round((upMs % 1000) * 1e6)];
    },
    { bigint: () => BigInt(Math.round(timesNow().upMs * 1e6)) },
  ),
  on: (name: string, listener: Listener) => listening(name).add(listener),
  once: (name: string, listener: Listener) => listening(name).add(listener),
  off: (name: string, listener: Listener) => listening(name).delete(listener),
  removeListener: (name: string, listener: Listener) => listening(name).delete(listener),
  listeners: (name: string) => [...listening(name)],
  getuid: () => 0,
  geteuid: () => 0,
  argv: ['node', 'capture'],
  chdir: () => undefined,
  exit: (status = 0): never => {
    const world = theWorld();
    world.count(`exit ${status} of ${world.process.name}`);
    world.kernel.exit(world.process, status << 8);
    throw new Dead();
  },
  kill: (pid: number, signal: string | number) => killFrom(pid, signal),
  send: (message: unknown, _handle: unknown, _options: unknown, then?: () => void) =>
    sendToParent(theWorld().process, message, then),
});
Object.defineProperty(process, 'pid', { get: pidNow });
Object.defineProperty(process, 'ppid', { get: () => theWorld().process.parent?.pid ?? 1 });
Object.defineProperty(process, 'connected', { get: () => isConnected(theWorld().process) });

function killFrom(pid: number, signal: string | number): true {
  const world = theWorld();
  const target = world.kernel.processes.get(Math.abs(pid));
  if (target === undefined) throw Object.assign(new Error('kill ESRCH'), { code: 'ESRCH' });
  if (signal !== 0) world.kernel.signal(target, String(signal));
  return true;
}
