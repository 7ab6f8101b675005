// Where a directory may be somebody else's, a name in it may be a link or a FIFO that they have put there. So files of our
// own are opened in one way (native/private-dir, native/beneath, native/files), and each other place says why it may do it.
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const SRC = fileURLToPath(new URL('../../src', import.meta.url));
const NAMES =
  'open|writeFile|appendFile|mkdir|mkdtemp|rename|symlink|link|unlink|rm|rmdir|copyFile|truncate|chmod|createWriteStream';
const CALL = new RegExp(`\\b(?:fs|fs\\.promises)\\.(?:${NAMES})(?:Sync)?\\(`);

/** The ways in which all others do it. */
const ONE_WAY: ReadonlySet<string> = new Set([
  'native/private-dir.ts',
  'native/beneath.ts',
  'native/own-dir.ts',
  'native/files.ts',
]);
const WHY: Readonly<Record<string, string>> = {
  'array/gather/destination.ts':
    'the directory that the user named, held open; new names only (O_EXCL), beneath it',
  'array/report/output-file.ts': 'the file that the user named, by a new one beside it (O_EXCL)',
  'doctor/doctor.ts': 'removes an empty directory that it has made',
  'doctor/watching.ts': 'a directory of its own (mkdtemp)',
  'launch/leftovers.ts': 'the work directory itself, as a directory',
  'library/child.ts': 'a directory for us alone (mkdtemp)',
  'many/launcher.ts': 'removes a file in the scratch directory, which is ours alone',
  'many/notice.ts': 'a file in the scratch directory, which is ours alone',
  'many/outcomes.ts': 'a log in the scratch directory, which is ours alone',
  'many/prepare.ts': 'directories in the scratch directory, which is ours alone',
  'many/queue/control.ts': 'a socket in the directory of workers, which is ours alone',
  'many/shared-sidecar.ts': 'a directory for us alone (mkdtemp)',
  'metrics/metrics.ts': 'the file that the user named, by a new one beside it (O_EXCL)',
  'native/directory-use.ts': 'links of /proc',
  'native/followed-links.ts':
    'a file that the user named, or under a key of the store: links are followed as its comment says',
  'native/held-socket.ts': 'a socket that the user named: only held (O_PATH), and its owner is asked for',
  'native/named-file.ts': 'the file that the user named, opened without waiting',
  'native/proc-reader.ts': '/proc',
  'native/remove-tree.ts': 'removes a tree, and follows no link in it',
  'native/shared-output.ts': '/proc/self/fd',
  'notices/file.ts': 'the file that the user named, opened without waiting',
  'read/snapshot.ts': '/proc/self/fd, and the spool: a new name (O_EXCL) that goes at once',
  'reclaim/reclaim.ts': 'files of the task, renamed into .capture, of which the start has made sure',
  'reclaim/recover.ts': 'the same',
  'reclaim/set-aside.ts': 'directories in .capture/reclaim, beneath the work directory',
  'restore/place.ts': 'removes beneath the work directory',
  'restore/staging.ts': 'new names (O_EXCL), beneath the work directory',
  'scratch/abandoned.ts': 'the lock of a scratch directory, which is ours alone',
  'scratch/left-work.ts': 'the scratch directory, which is ours alone, held open',
  'scratch/scratch.ts': 'the scratch directory, which it makes for us alone (mkdtemp) and holds open',
  'sidecar/control/control.ts': 'a socket in .capture, or in a directory for us alone (mkdtemp)',
  'sidecar/output/sources.ts': '/proc/<pid>/fd: a file that the task has open already',
  'sidecar/serve.ts': 'a socket in the scratch directory; /proc/<pid>/fd',
  'sidecar/standalone/exit-file.ts': 'the file that the user named, opened without waiting',
  'sidecar/startup/dry-run.ts': 'the work directory itself, as a directory',
  'sidecar/startup/leftovers.ts': 'removes beneath the work directory',
  'sidecar/startup/restore-only.ts':
    'the work directory itself, as a directory; the exit file that the user named',
  'sidecar/startup/start.ts': 'the work directory itself, as a directory',
  'store/file/directory.ts':
    'the store: each folder is held beneath it, new names are random (O_EXCL), old ones are not followed',
  'store/file/file.ts': 'the same',
  'store/file/objects.ts': 'the same',
  'watch/self-test.ts': 'a directory in .capture with a name that nobody can guess',
};

/** By path, name after name: who swaps a directory for a link meanwhile has files removed elsewhere. */
const BY_PATH = /\brm(?:Sync)?\([^;]*recursive: true/;

it('trees are removed through open directories alone (native/remove-tree)', () => {
  const found = fs
    .readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && BY_PATH.test(fs.readFileSync(`${SRC}/${name}`, 'utf8')));
  expect(found).toEqual([]);
});

it('files are made and opened in one way, or the place says why not', () => {
  const found = fs
    .readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && CALL.test(fs.readFileSync(`${SRC}/${name}`, 'utf8')))
    .filter((name) => !ONE_WAY.has(name));
  expect(found.toSorted()).toEqual(Object.keys(WHY).toSorted());
});
