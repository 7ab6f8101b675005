// What each test with a real sshd needs.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';

/** sshd of root wants this directory; a service makes it. */
export const PRIVSEP = '/run/sshd';

/** Somebody listens there. */
export async function isListening(port: number): Promise<boolean> {
  const socket = net.connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

export async function stopDaemon(daemon: ChildProcess): Promise<void> {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  const exited = once(daemon, 'exit');
  daemon.kill('SIGKILL');
  await exited;
}
