// Refuses files that the AWS SDK or Node would wait for. They are read as a whole, some of them synchronously: for a
// FIFO that nobody writes the process would wait for ever, and obey no signal.
import fs from 'node:fs';
import { StoreError } from '../contract/store.ts';

/** Names of AWS that stand for a file. */
const VARIABLES = [
  'AWS_CONFIG_FILE',
  'AWS_SHARED_CREDENTIALS_FILE',
  'AWS_CA_BUNDLE',
  'AWS_WEB_IDENTITY_TOKEN_FILE',
  'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE',
] as const;

const NO_FILE = '/dev/null';

/** @throws StoreError if one of the AWS variables names a FIFO, a device or a socket. */
export function refuseSpecialFiles(env: NodeJS.ProcessEnv): void {
  for (const name of VARIABLES) refuseSpecialFile(name, env[name]);
}

/** `setting`: who names the file. A missing one is reported by its reader. */
export function refuseSpecialFile(setting: string, file: string | undefined): void {
  if (file === undefined || file === '' || file === NO_FILE) return;
  const stat = statOf(file);
  if (stat === undefined || stat.isFile() || stat.isDirectory()) return;
  throw new StoreError('refused', `${setting} names ${file}, which is no regular file`, {
    hint: 'write its content into a file, and name that one',
  });
}

function statOf(file: string): fs.Stats | undefined {
  try {
    return fs.statSync(file, { throwIfNoEntry: false });
  } catch {
    return undefined; // not ours to look at: nor can the reader open it
  }
}
