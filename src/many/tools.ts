// What a runner works with, beside what its command line says.
import { fileURLToPath } from 'node:url';
import type { Tools } from '../cli/command.ts';
import type { Log } from '../log/log.ts';
import { writeText } from '../native/shared-output.ts';

export interface RunnerTools {
  readonly log: Log;
  /** stdout, without a stream: tasks share it. */
  readonly print: (text: string) => void;
  readonly env: NodeJS.ProcessEnv;
  /** The module that runs one task. */
  readonly entry: string;
  /** The module of the sidecar. */
  readonly sidecarEntry: string;
}

const STDOUT = 1;
/** Beside this module in the bundle (build.mjs). */
const ENTRY = fileURLToPath(new URL('./capture.cjs', import.meta.url));
const SIDECAR_ENTRY = fileURLToPath(new URL('./sidecar.cjs', import.meta.url));

export function runnerTools({ log, env }: Tools): RunnerTools {
  // Each slot listens for the end of its launcher: that is no leak.
  process.setMaxListeners(0);
  const print = (text: string): void => writeText(STDOUT, text);
  return { log, print, env, entry: ENTRY, sidecarEntry: SIDECAR_ENTRY };
}
