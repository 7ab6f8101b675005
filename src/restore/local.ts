// What is in the work directory already, before anything is downloaded: a file that was stored is recognised by its
// bytes. Nothing here changes anything.
import fs from 'node:fs';
import { errnoOf } from '../model/errors.ts';
import {
  decideLocal,
  type LocalDecision,
  type LocalState,
  type RestoreRole,
} from '../model/file/local-policy.ts';
import type { Companion, Generation } from '../model/format/records.ts';
import { md5Of } from '../model/md5.ts';
import { isInside, type RelPath } from '../model/path.ts';
import { beneath, isBlocked, type WorkDir } from '../native/beneath.ts';
import { factsOf, openBeneath } from '../native/files.ts';
import { md5OfFile } from '../native/md5.ts';
import { absolutePath } from '../native/own-dir.ts';
import { type Source, sourceOfCompanion } from './source.ts';

/** One file of a restore, and what is to be done for it. */
export interface Surveyed {
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

/** Compares each source with what is at its path; only files of the stored size are read. */
export async function surveyLocal(
  root: WorkDir,
  sources: readonly Source[],
  { role, onLocal, signal }: SurveyOptions,
): Promise<readonly Surveyed[]> {
  const surveyed: Surveyed[] = [];
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

function lookAt(root: WorkDir, path: RelPath): fs.BigIntStats | undefined {
  // A name that leads out is refused when it is fetched; here it is not even looked at.
  if (!isInside(path)) return undefined;
  try {
    return fs.lstatSync(absolutePath(root, path), { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    // A file stands above it: placing it says so.
    if (errnoOf(error) === 'ENOTDIR') return undefined;
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
  // An input stays whatever it is; and without a recorded md5 nothing can be the same.
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
 * The companions of a set that are to be fetched. A file that is also a result may be in it twice: it comes back as the
 * member that it is. A local file that begins with the stored bytes stays: it is at least as long
 * as the checkpoint says, and the task cuts it back by itself.
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
  // A name that leads out is refused when it is fetched; here it is not even looked at.
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
 * Undefined if nothing is there, or a link, a directory, a device, a file that we may not read: none is what was
 * stored.
 */
function openFile(root: WorkDir, path: RelPath): number | undefined {
  try {
    return openBeneath(root, path);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}
