// The channel between a process and its parent, as the child sees it (process.send).
import type { SimProcess } from './process.ts';

interface Channel {
  readonly send: (message: unknown, then: (() => void) | undefined) => void;
  readonly isOpen: () => boolean;
}

const channels = new WeakMap<SimProcess, Channel>();

export function openChannel(process: SimProcess, channel: Channel): void {
  channels.set(process, channel);
}

export function hasChannel(process: SimProcess): boolean {
  return channels.has(process);
}

export function sendToParent(process: SimProcess, message: unknown, then?: () => void): void {
  channels.get(process)?.send(message, then);
}

export function isConnected(process: SimProcess): boolean {
  return channels.get(process)?.isOpen() === true;
}
