// node:child_process: processes of the simulated machine. The sidecar runs as real code, the task as a list of steps.
// The launcher's own code decides when they start.
import { EventEmitter } from 'node:events';
import { hasChannel, openChannel } from '../machine/channels.ts';
import { tellListeners } from '../machine/listeners.ts';
import type { SimProcess } from '../machine/process.ts';
import { theWorld } from '../machine/world.ts';

interface SpawnOptions {
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  readonly stdio?: readonly unknown[];
}

/** The code of a new process, called in an event of its own. */
export type Program = (process: SimProcess) => void;
export type FindProgram = (
  file: string,
  args: readonly string[],
) => {
  readonly name: string;
  readonly run: Program;
  /** Called when the process exists, and runs nothing yet. */
  readonly began?: Program;
};

/** The programs that a process can start. */
const programsOf = new WeakMap<SimProcess, FindProgram>();

export function setPrograms(process: SimProcess, find: FindProgram): void {
  programsOf.set(process, find);
}

const STEP_MS = 0.1;

/** Messages in one direction keep their order. */
class Channel {
  #lastMs = 0;

  send(owner: SimProcess | undefined, act: () => void): void {
    const { scheduler, random } = theWorld();
    this.#lastMs = Math.max(this.#lastMs, scheduler.nowMs + STEP_MS * (1 + random.next()));
    scheduler.at(this.#lastMs, owner, act);
  }
}

class SimChild extends EventEmitter {
  readonly pid: number;
  exitCode: number | null = null;
  signalCode: string | null = null;
  connected: boolean;
  readonly _handle = { close: (): void => undefined };
  readonly #process: SimProcess;
  readonly #parent: SimProcess;
  readonly #down = new Channel();
  readonly #up = new Channel();
  readonly #waiting: (() => boolean)[] = [];

  constructor(process: SimProcess, parent: SimProcess, isConnected: boolean) {
    super();
    this.pid = process.pid;
    this.#process = process;
    this.#parent = parent;
    this.connected = isConnected;
    process.onDeath.add(() => this.#died());
    if (!isConnected) return;
    openChannel(process, {
      send: (message, then) => {
        const copy = plain(message);
        this.#up.send(parent, () => this.emit('message', copy));
        this.#up.send(process, () => then?.());
      },
      isOpen: () => this.connected && parent.isAlive,
    });
    parent.onDeath.add(() => this.disconnect());
  }

  send(message: unknown, then?: (error: Error | null) => void): boolean {
    const copy = plain(message);
    this.#down.send(this.#process, () => this.#deliver(() => tellListeners(this.#process, 'message', copy)));
    then?.(null);
    return true;
  }

  /** Messages wait in the channel until the program has begun. */
  #deliver(tell: () => boolean): void {
    if (this.#waiting.length === 0 && tell()) return;
    this.#waiting.push(tell);
    if (this.#waiting.length === 1) this.#deliverLater();
  }

  #deliverLater(): void {
    const { scheduler } = theWorld();
    scheduler.at(scheduler.nowMs + STEP_MS, this.#process, () => {
      while (this.#waiting[0]?.() === true) this.#waiting.shift();
      if (this.#waiting.length > 0) this.#deliverLater();
    });
  }

  disconnect(): void {
    if (!this.connected) return;
    this.connected = false;
    this.#down.send(this.#process, () =>
      this.#deliver(() => tellListeners(this.#process, 'disconnect', undefined)),
    );
    this.#up.send(this.#parent, () => this.emit('disconnect'));
  }

  kill(signal = 'SIGTERM'): boolean {
    theWorld().kernel.signal(this.#process, signal);
    return true;
  }

  #died(): void {
    const { kernel } = theWorld();
    const { status } = this.#process;
    this.#up.send(this.#parent, () => {
      const signal = status & 0x7f;
      this.exitCode = signal === 0 ? status >> 8 : null;
      this.signalCode = signal === 0 ? null : 'SIGKILL';
      const wasConnected = this.connected;
      // The launcher itself waits for the status of a task (native/ended.ts).
      if (wasConnected || hasChannel(this.#process)) kernel.reap(this.#process);
      this.emit('exit', this.exitCode, this.signalCode);
      if (wasConnected) {
        this.connected = false;
        this.emit('disconnect');
      }
    });
  }
}

function plain(message: unknown): unknown {
  return JSON.parse(JSON.stringify(message));
}

export function spawn(file: string, args: readonly string[] = [], options: SpawnOptions = {}): SimChild {
  const world = theWorld();
  const parent = world.process;
  const program = programsOf.get(parent)?.(file, args);
  if (program === undefined) throw new Error(`no ${file} can be started in this world`);
  const { name, run, began } = program;
  const child = world.kernel.spawn({ parent, name, environment: options.env ?? {} });
  child.cwd = options.cwd ?? parent.cwd;
  began?.(child);
  const handle = new SimChild(child, parent, options.stdio?.includes('ipc') === true);
  world.scheduler.at(world.nowMs + STEP_MS + world.random.next(), child, () => run(child));
  return handle;
}
