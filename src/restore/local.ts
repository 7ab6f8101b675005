// What the work directory already has, before anything is downloaded: a stored file is recognised by its bytes.
// Nothing here changes anything.
import fs from 'node:fs';
import { promisify } from 'node:util';
import { errnoOf } from '../model/errors.ts';
import type { Companion, Generation } from '../model/format/records.ts';
import { md5Of, newMd5 } from '../model/md5.ts';
import { isInside, type RelPath } from '../model/path.ts';
import { beneath, isBlocked, type WorkDir } from '../native/beneath.ts';
import { factsOf, openBeneath } from '../native/files.ts';
import { absolutePath } from '../native/own-dir.ts';
import { type Source, sourceOfCompanion } from './source.ts';

/** `same`: the bytes of the stored file. `differs`: anything else of that name. */
type LocalState = 'absent' | 'same' | 'differs';

/** `input`: the user staged it. `resumed`: a checkpoint, or a result that is an input and was stored earlier. */
export type RestoreRole = 'input' | 'resumed';

/** `replace`: fetch, and move the local file aside before the stored one is placed. */
export type LocalDecision = 'fetch' | 'keep' | 'replace';

/** One file of a restore, and what to do with it. */
export interface SurveyedFile {
  readonly source: Source;
  readonly local: LocalState;
  readonly localIsNewer: boolean;
  readonly decision: LocalDecision;
}

export interface SurveyOptions {
  readonly role: RestoreRole;
  readonly onLocal: 'stored' | 'newest';
  readonly signal?: AbortSignal;
}

/** Compares each source with the file at its path. It reads only files of the stored size. */
export async function surveyLocal(
  root: WorkDir,
  sources: readonly Source[],
  { role, onLocal, signal }: SurveyOptions,
): Promise<readonly SurveyedFile[]> {
  const surveyed: SurveyedFile[] = [];
  for (const source of sources) {
    signal?.throwIfAborted();
    const stat = lookAt(root, source.path);
    const localIsNewer =
      stat !== undefined && source.mtimeNs !== undefined && stat.mtimeNs > BigInt(source.mtimeNs);
    // oxlint-disable-next-line no-await-in-loop -- one core hashes one file after the other
    const local = await stateOf({ role, signal }, root, source, stat);
    const decision = decideLocal({ role, local, localIsNewer, onLocal });
    surveyed.push({ source, local, localIsNewer, decision });
  }
  return surveyed;
}

export interface LocalQuestion {
  readonly role: RestoreRole;
  readonly local: LocalState;
  /** The local file was modified after the stored one; false if that is not known. */
  readonly localIsNewer: boolean;
  readonly onLocal: 'stored' | 'newest';
}

/** What a restore does if the work directory already has a file of that name. Pure. */
export function decideLocal({ role, local, localIsNewer, onLocal }: LocalQuestion): LocalDecision {
  if (local === 'absent') return 'fetch';
  if (local === 'same' || role === 'input') return 'keep';
  return onLocal === 'newest' && localIsNewer ? 'keep' : 'replace';
}

function lookAt(root: WorkDir, path: RelPath): fs.BigIntStats | undefined {
  // The fetch refuses a path that leads out; it is not even looked at here.
  if (!isInside(path)) return undefined;
  try {
    return fs.lstatSync(absolutePath(root, path), { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    // A file is in the place of a directory above it: placing it reports that. The fetch refuses a name that is too long.
    if (['ENOTDIR', 'ENAMETOOLONG'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}

async function stateOf(
  { role, signal }: Pick<SurveyOptions, 'role' | 'signal'>,
  root: WorkDir,
  source: Source,
  stat: fs.BigIntStats | undefined,
): Promise<LocalState> {
  if (stat === undefined) return 'absent';
  // An input stays whatever its content. Without a recorded md5, nothing can be the same.
  if (role === 'input' || source.md5 === undefined) return 'differs';
  const md5 =
    source.kind === 'link' ? md5OfLink(root, source, stat) : await md5OfSource(root, source, signal);
  return md5 === source.md5 ? 'same' : 'differs';
}

function md5OfLink(root: WorkDir, { path }: Source, stat: fs.BigIntStats): string | undefined {
  if (!stat.isSymbolicLink()) return undefined;
  try {
    return md5Of(beneath(root, path, (full) => fs.readlinkSync(full, { encoding: 'buffer' })));
  } catch (error) {
    if (isBlocked(error)) return undefined;
    throw error;
  }
}

async function md5OfSource(
  root: WorkDir,
  { path, size }: Source,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const fd = openFile(root, path);
  if (fd === undefined) return undefined;
  try {
    return factsOf(fd).size === size ? await md5OfFile(fd, signal) : undefined;
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * The companions of a set that must be fetched. A file that is also a result may be in the set twice: it is restored
 * as a member. A local file that begins with the stored bytes stays: it is at least as long as at the checkpoint, and
 * the task itself truncates it.
 */
export async function wantedCompanions(
  root: WorkDir,
  { members, companions }: Pick<Generation, 'members' | 'companions'>,
  signal: AbortSignal,
): Promise<readonly Source[]> {
  const paths = new Set(members.map(({ path }) => path));
  const wanted: Source[] = [];
  for (const companion of companions) {
    if (paths.has(companion.path)) continue;
    // oxlint-disable-next-line no-await-in-loop -- one core hashes one file after the other
    if (!(await beginsAsStored(root, companion, signal))) wanted.push(sourceOfCompanion(companion));
  }
  return wanted;
}

async function beginsAsStored(root: WorkDir, companion: Companion, signal: AbortSignal): Promise<boolean> {
  // The fetch refuses a path that leads out; it is not even looked at here.
  const fd = isInside(companion.path) ? openFile(root, companion.path) : undefined;
  if (fd === undefined) return false;
  try {
    for (const { first, size, md5 } of companion.segments) {
      // oxlint-disable-next-line no-await-in-loop -- the first that differs ends it
      if ((await md5OfFile(fd, signal, { first, end: first + size })) !== md5) return false;
    }
    return true;
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Undefined if there is no file, or a link, a directory, a device, or a file that capture may not read: none of these
 * is the stored file.
 */
function openFile(root: WorkDir, path: RelPath): number | undefined {
  try {
    return openBeneath(root, path);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}

const READ_BYTES = 2 ** 20;
const read = promisify(fs.read);

/** md5 of an open file, as hex: of all its bytes, or of those from `first` to `end`, as far as they exist. */
export async function md5OfFile(
  fd: number,
  signal?: AbortSignal,
  { first, end }: { readonly first: number; readonly end: number } = { first: 0, end: Infinity },
): Promise<string> {
  const md5 = newMd5();
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  for (let at = first; ;) {
    signal?.throwIfAborted();
    // oxlint-disable-next-line no-await-in-loop -- one buffer, read and hashed in turn
    const { bytesRead } = await read(fd, buffer, 0, Math.min(READ_BYTES, end - at), at);
    if (bytesRead === 0) return md5.digest();
    md5.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
}
