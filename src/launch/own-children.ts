// Children that the launcher starts itself while it adopts orphans (leftovers). libuv reaps them, so nobody else may:
// if somebody else reaps one, Node never sees its end.
import type { ChildProcess } from 'node:child_process';

/** Call it in the same turn of the event loop in which the child was started. */
export function noteOwnChild(child: ChildProcess, ownChildren: Set<number>): void {
  const { pid } = child;
  if (pid === undefined) return;
  if (hasEnded(child)) return void ownChildren.delete(pid);
  ownChildren.add(pid);
  child.once('exit', () => ownChildren.delete(pid));
}

export function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
