// Children that we start while we adopt orphans (leftovers): libuv takes their exit status, so nobody else may. One whose
// status is taken by another hand never ends for Node.
import type { ChildProcess } from 'node:child_process';

/** In the same turn of the event loop in which it was started. */
export function noteOwn(child: ChildProcess, ownChildren: Set<number>): void {
  const { pid } = child;
  if (pid === undefined) return;
  if (hasEnded(child)) return void ownChildren.delete(pid);
  ownChildren.add(pid);
  child.once('exit', () => ownChildren.delete(pid));
}

export function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}
