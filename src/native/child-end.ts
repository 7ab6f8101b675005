// How a child ended, from the kernel itself. Node says the same of exit 0 and of a signal that it has no name for (34 to
// 64): a task that died half-way through a file would be taken for one that has done its work.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Ended } from '../model/format/messages.ts';
import { LONGEST_MS } from './clock.ts';
import { reapChild } from './processes.ts';

/**
 * Resolves when it has ended; rejects when it could not be started. To be called in the turn of the event loop in which
 * it was spawned: from then on libuv would take its exit status. Its 'exit' event never comes.
 */
export async function endOfChild(child: ChildProcess): Promise<Ended> {
  const { pid } = child;
  // Closed, it is none of those whose pids libuv waits for at a SIGCHLD. Node has no public way to it.
  const { _handle: handle } = child as { _handle?: { close?(): void } };
  if (pid === undefined || handle?.close === undefined) return saidByNode(child);
  handle.close();
  return new Promise((resolve) => {
    // Signal listeners do not keep the event loop alive, and the handle that did is closed.
    const alive = setInterval(() => undefined, LONGEST_MS);
    const reap = (): void => {
      const ended = reapChild(pid);
      if (ended === undefined) return;
      clearInterval(alive);
      process.removeListener('SIGCHLD', reap);
      resolve(ended);
    };
    process.on('SIGCHLD', reap);
    reap(); // It may have ended before there was a listener.
  });
}

async function saidByNode(child: ChildProcess): Promise<Ended> {
  const [code, signal] = (await once(child, 'exit')) as [number, null] | [null, string];
  return signal === null ? { code, signal: undefined } : { code: undefined, signal };
}
