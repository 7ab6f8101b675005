// What a runner needs in addition to its command line.
import { fileURLToPath } from 'node:url';
import type { Tools } from '../cli/command.ts';
import type { Log } from '../log/log.ts';
import { writeText } from '../native/shared-output.ts';

export interface RunnerTools {
  readonly log: Log;
  /** Writes to stdout without a stream, because the tasks share stdout. */
  readonly print: (text: string) => void;
  readonly env: NodeJS.ProcessEnv;
  /** The module that runs one task. */
  readonly entry: string;
  /** The module of the sidecar. */
  readonly sidecarEntry: string;
}

const STDOUT = 1;
/** The file next to this module in the bundle (build.mjs). */
const ENTRY = fileURLToPath(new URL('./capture.cjs', import.meta.url));
const SIDECAR_ENTRY = fileURLToPath(new URL('./sidecar.cjs', import.meta.url));

export function runnerTools({ log, env }: Tools): RunnerTools {
  // Each slot listens for the end of its launcher, so many listeners are no leak.
  process.setMaxListeners(0);
  const print = (text: string): void => writeText(STDOUT, text);
  return { log, print, env, entry: ENTRY, sidecarEntry: SIDECAR_ENTRY };
}
