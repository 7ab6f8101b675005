// What the first file of each process does before it loads its program. It is imported first: before it has run, each
// module of Node costs time to load. The bundle of a first file keeps the order of imports (build.mjs).
import fs from 'node:fs';
import path from 'node:path';
import v8 from 'node:v8';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';

takeHeapFlagsBack();
leaveWarningToUs();

/**
 * Resets the flags for heap sizes. Node's own modules have a code cache that fits only the default flags of V8: with
 * any other flag each module is compiled when it is loaded, which takes 25 ms of a start. The sizes count only while
 * the heap is made, and that is done. Threads get theirs from resourceLimits.
 */
function takeHeapFlagsBack(): void {
  for (const flag of process.execArgv) {
    const [name = ''] = flag.split('=');
    if (/^--(max|initial)-.*-space-size$/.test(name)) v8.setFlagsFromString(`${name}=0`);
  }
}

/**
 * Capture has its own warning about certificates that are not checked (cli/warnings). Node would print one in each
 * process, past the log.
 */
function leaveWarningToUs(): void {
  if (process.env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return;
  const printers = process.listeners('warning');
  process.removeAllListeners('warning');
  process.on('warning', (warning) => {
    if (warning.message.includes('NODE_TLS_REJECT_UNAUTHORIZED')) return;
    for (const print of printers) print.call(process, warning);
  });
}

/** The path of a file in the directory of this one. */
export function besideUs(name: string): string {
  return path.join(path.dirname(import.meta.filename), name);
}

/** The export `main` of a program. It is at the end of the file: a truncated file does not have it. */
export function mainOf<Main>(exports: { readonly main?: Main }): Main {
  if (exports.main === undefined) throw new Error('it was cut off');
  return exports.main;
}

/** The error for a file of dist/ that is missing, truncated, or not JavaScript. */
export function damaged(file: string, cause: unknown): CaptureError {
  const hint = 'install capture again';
  return new CaptureError(EXIT.internal, `${file} is damaged: ${reasonOf(cause)}`, { hint, cause });
}

/**
 * Prints the error and ends the process with its status. Node would end it with 1, which may be the task's own status.
 */
export function exitDamaged({ message, hint, status }: CaptureError): never {
  fs.writeSync(2, `capture: ${message} (try: ${hint})\n`);
  process.exit(status);
}
