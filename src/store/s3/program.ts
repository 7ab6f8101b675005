// Runs the program that a profile names as `credential_process`, in place of the SDK, which would wait for it for ever.
// A program that nobody waits for any more is ended, with all that it has started.
import { spawn } from 'node:child_process';
import { isatty } from 'node:tty';
import { signalOfCall } from './bounded.ts';

/** Credentials are short. */
const MOST_BYTES = 2 ** 20;

type Done = (error: Error | null, output?: { readonly stdout: string }) => void;

/** The interface of `child_process.exec`, as far as the SDK uses it. */
export function execProgram(command: string, done: Done): void {
  const signal = signalOfCall();
  // At a terminal it stays in the foreground: there it may ask, and Ctrl-C reaches it.
  const isGroup = !isatty(0);
  const child = spawn(command, { shell: true, detached: isGroup, stdio: ['ignore', 'pipe', 'ignore'] });
  const end = (): void => {
    child.stdout.destroy();
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    try {
      process.kill(isGroup ? -child.pid : child.pid, 'SIGKILL');
    } catch {
      // It has just ended.
    }
  };
  const over = (error: Error | null, stdout = ''): void => {
    signal?.removeEventListener('abort', end);
    process.off('exit', end);
    done(error, { stdout });
  };
  signal?.addEventListener('abort', end, { once: true });
  process.once('exit', end);
  const chunks: Buffer[] = [];
  let bytes = 0;
  child.stdout.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > MOST_BYTES) end();
  });
  child.once('error', (error) => over(error));
  child.once('close', (code) =>
    code === 0 ? over(null, Buffer.concat(chunks).toString()) : over(new Error('credential_process failed')),
  );
  if (signal?.aborted === true) end();
}
