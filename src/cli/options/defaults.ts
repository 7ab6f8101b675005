// Files with defaults: of the site, of the user, and the one that CAPTURE_CONFIG names. Each key is an option, as in a job
// file. What they say counts like a variable that is not set: below the environment, and below the command line.
import fs from 'node:fs';
import path from 'node:path';
import type { Mistake } from '../../model/errors.ts';
import { RUNNER_VARIABLE } from '../../model/format/shared-sidecar.ts';
import { encodePath } from '../../model/path.ts';

/** Names a file of defaults that must be there. */
export const CONFIG_VARIABLE = 'CAPTURE_CONFIG';
const SITE_FILE = '/etc/capture.yaml';

export interface DefaultsFile {
  readonly path: string;
  readonly isThere: boolean;
}

/** What the files give. */
export interface Defaults {
  /** All of them; a later one wins. */
  readonly files: readonly DefaultsFile[];
  /** Where the value of a variable comes from, if it is a file: `'/etc/capture.yaml', line 3`. */
  readonly places: ReadonlyMap<string, string>;
  readonly mistakes: readonly Mistake[];
}

/**
 * Every start looks for them, so it opens none that is not there. A task of a runner has none: the runner has read its own,
 * and those of a worker's machine are not part of what somebody has submitted.
 */
export function defaultsFiles(env: NodeJS.ProcessEnv): readonly DefaultsFile[] {
  if (env[RUNNER_VARIABLE] !== undefined) return [];
  const { HOME, XDG_CONFIG_HOME, [CONFIG_VARIABLE]: named } = env;
  // "All paths must be absolute" (XDG Base Directory Specification).
  const dirs = [XDG_CONFIG_HOME, HOME && path.join(HOME, '.config')];
  const own = dirs.find((dir) => dir !== undefined && path.isAbsolute(dir));
  return [
    ...[SITE_FILE, ...(own === undefined ? [] : [path.join(own, 'capture.yaml')])].map((file) => ({
      path: file,
      isThere: fs.existsSync(encodePath(file)),
    })),
    ...(named ? [{ path: named, isThere: true }] : []),
  ];
}
