// Warnings about facts that hold for the whole process: several parts find the same fact, and each log reports it
// once.
import type { Mistake } from '../model/errors.ts';
import type { Log } from './log.ts';

const said = new WeakMap<object, Set<string>>();

/** For the `warn` callback of stores, and for warnings about the environment. */
export function warnOnce(log: Pick<Log, 'warn'>, { message, hint }: Mistake): void {
  const before = said.get(log) ?? new Set();
  said.set(log, before);
  if (before.has(message)) return;
  before.add(message);
  log.warn(message, { hint });
}
