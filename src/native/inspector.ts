// Keeps Node's debugger closed: SIGUSR1 belongs to schedulers and to the task, and a debug port on a shared node lets
// any user in. Called before anything else runs.
import inspector from 'node:inspector';

/**
 * Takes SIGUSR1 away from Node for the life of the process, and closes an inspector that a signal opened while Node was
 * starting.
 */
export function guardInspector(): void {
  // A listener replaces Node's own handler (process, "Signal events"). What the signal means is decided elsewhere.
  process.on('SIGUSR1', () => undefined);
  closeInspector();
  // Node opens it from its event loop: a signal just before the line above takes effect only a turn later.
  setImmediate(closeInspector);
}

function closeInspector(): void {
  if (inspector.url() !== undefined) inspector.close();
}
