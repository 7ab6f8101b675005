// Runs the program that a profile names as `credential_process`, in place of the SDK, which would wait for it for ever.
// A program that nobody waits for any more is ended, with all that it has started.
import { isatty } from 'node:tty';
import { askProgram } from '../../native/ask-program.ts';
import { signalOfCall } from './bounded.ts';

/** For one call of the chain of credentials, and so for its program: it may hang, and roles take several requests. */
export const CALL_WITHIN_MS = 60_000;

type Done = (error: unknown, output?: { readonly stdout: string }) => void;

/** The interface of `child_process.exec`, as far as the SDK uses it. */
export function execProgram(command: string, done: Done): void {
  // At a terminal it stays in the foreground: there it may ask, and Ctrl-C reaches it.
  const options = { withinMs: CALL_WITHIN_MS, signal: signalOfCall(), inForeground: isatty(0) };
  void askProgram('/bin/sh', ['-c', command], options).then((stdout) => done(null, { stdout }), done);
}
