// Where the control socket stands: in a directory of ours that nobody else can enter, and where a sidecar that
// replaces a dead one of the same run finds the same place. Never trusts a directory that it did not make.
import fs from 'node:fs';
import os from 'node:os';
import { OWN_DIR } from '../../model/file/manifest.ts';
import { LONGEST_SOCKET_PATH_BYTES } from '../../model/format/control.ts';
import { encodePath } from '../../model/path.ts';

/** Enough of the run's token to be alone with. */
const TOKEN_LENGTH = 12;

/**
 * The places that can be tried, best first. Beside the task's files: a container that has the work directory
 * has the socket, too. In the directory for temporary files: a name that always fits.
 */
export function socketPlaces(
  workdir: string,
  runToken: string,
  tmpdirs: readonly string[] = [os.tmpdir(), '/tmp'],
): readonly string[] {
  const token = runToken.slice(0, TOKEN_LENGTH);
  const places = [
    `${workdir}/${OWN_DIR}/${token}.sock`,
    ...tmpdirs.map((dir) => `${dir}/capture-${process.getuid?.() ?? 0}-${token}/control`),
  ];
  return [...new Set(places)].filter(fits);
}

/** Room for `.new` behind it, the name under which it is made; Node knows no paths that are not UTF-8. */
function fits(path: string): boolean {
  const bytes = encodePath(`${path}.new`);
  return typeof bytes === 'string' && Buffer.byteLength(bytes) <= LONGEST_SOCKET_PATH_BYTES;
}

/** Makes the directory of a place, or sees that it is ours alone. Throws when it is not. */
export function claimDirectory(dir: string): void {
  fs.mkdirSync(dir, { recursive: true, mode: 0o700 });
  const stat = fs.lstatSync(dir);
  if (!stat.isDirectory() || stat.uid !== process.getuid?.() || (stat.mode & 0o077) !== 0)
    throw new Error(`${dir} is not ours alone`);
}
