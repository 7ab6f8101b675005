// What a process listens to through process.on(): signals, messages of its parent, the end of its channel.
import type { SimProcess } from './process.ts';

export type Listener = (what: unknown) => void;

const all = new WeakMap<SimProcess, Map<string, Set<Listener>>>();

export function listenersOf(process: SimProcess, name: string): Set<Listener> {
  const ofProcess = all.get(process) ?? new Map<string, Set<Listener>>();
  all.set(process, ofProcess);
  const some = ofProcess.get(name) ?? new Set<Listener>();
  ofProcess.set(name, some);
  return some;
}

/** Calls all listeners; false if there is none. */
export function tellListeners(process: SimProcess, name: string, what: unknown): boolean {
  const some = [...listenersOf(process, name)];
  for (const listener of some) listener(what);
  return some.length > 0;
}
