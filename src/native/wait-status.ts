// A wait status (waitpid(2)) in words, and a signal by its name or its number. Node knows no real-time signal
// (signal(7)): these are `SIG34` to `SIG64` here, in messages and in records.
import os from 'node:os';
import type { Ended } from '../model/format/messages.ts';

const NUMBERS: ReadonlyMap<string, number> = new Map(Object.entries(os.constants.signals));
/** Of two names for one number (SIGABRT, SIGIOT) the first, as Node has it. */
const NAMES: ReadonlyMap<number, string> = new Map(
  [...NUMBERS].toReversed().map(([name, number]) => [number, name]),
);

/** `status`: of a process that has ended, never of one that was stopped. */
export function endOf(status: number): Ended {
  const signalNumber = status & 0x7f;
  return signalNumber === 0
    ? { code: (status >> 8) & 0xff, signal: undefined }
    : { code: undefined, signal: nameOfSignal(signalNumber) };
}

/** @throws Error for what is no signal: no end may be read as one that it was not. */
export function numberOfSignal(name: string): number {
  const number = NUMBERS.get(name) ?? Number(/^SIG(\d+)$/.exec(name)?.[1]);
  if (Number.isNaN(number)) throw new Error(`${name} is no signal`);
  return number;
}

function nameOfSignal(number: number): string {
  return NAMES.get(number) ?? `SIG${number}`;
}
