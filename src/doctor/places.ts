// The places on this node that a run needs: the work directory, the spool directory, and the memory for both; and the
// place of a store that is a directory. Reads only; writes nothing.
import fs from 'node:fs';
import path from 'node:path';
import { reasonOf } from '../model/errors.ts';
import { encodePath, showPath } from '../model/path.ts';
import { formatBytes } from '../model/units.ts';
import type { cgroupMemory } from '../native/cgroup.ts';
import { type Mount, mountOf } from '../native/mounts.ts';
import { fileSystemType, networkFileSystem } from '../native/network-files.ts';
import { type DiskUse, diskUseOf } from '../native/disk-use.ts';
import { HIGH_USE } from '../reclaim/pressure.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

export interface Places {
  /** Absolute. */
  readonly workdir: string;
  /** The directory for spools. */
  readonly spoolDir: string;
  readonly spoolLimitBytes: number;
  /** Why a task cannot work there, and what helps. */
  readonly workdirProblem: (dir: string) => { readonly why: string; readonly hint: string } | undefined;
  readonly memory: typeof cgroupMemory;
}

/** As docs/containers.md recommends; 100 to 250 MiB were measured. */
const CAPTURE_BYTES = 256 * 2 ** 20;
const STORE_MEND = 'name a directory on a file system that all nodes share, or a bucket';
const LOCAL = 'let the task work in a local directory or in memory (--workdir)';

export async function examineWorkdir({ workdir, workdirProblem }: Places): Promise<Finding> {
  const shown = showPath(workdir);
  const problem = workdirProblem(workdir);
  if (problem !== undefined)
    return fail('work directory', `cannot work in ${shown}: ${problem.why}`, problem.hint);
  const kind = kindOf(workdir);
  const uses = await diskUseOf(workdir);
  const says = `${shown} is on ${kind.name}; ${uses.map(usedOf).join(', ')}`;
  const facts = { path: workdir, fileSystem: kind.type, ...factsOf(uses) };
  const full = uses.find(({ used, limit }) => limit > 0 && used > limit * HIGH_USE);
  if (full !== undefined)
    return warn('work directory', says, `it is nearly full (${full.of}): make room, or --workdir`, facts);
  if (kind.isNetwork) {
    const late = 'a file that another node writes causes no event, and is found by a scan (--rescan)';
    return warn('work directory', `${says}: ${late}`, LOCAL, facts);
  }
  if (kind.type === 'overlay') {
    const kept = 'deleting a file there may free no space, so capture reclaims nothing while the task runs';
    return warn('work directory', `${says}: ${kept}`, `mount a volume: ${LOCAL}`, facts);
  }
  return ok('work directory', says, facts);
}

export async function examineSpool({ spoolDir, spoolLimitBytes }: Places): Promise<Finding> {
  const shown = showPath(spoolDir);
  const mend = '--spool <dir> with more room, or TMPDIR; in a container mount a volume there';
  const without = 'a file that is rewritten while it is sent is stored only once it rests';
  try {
    fs.accessSync(encodePath(spoolDir), fs.constants.W_OK | fs.constants.X_OK);
    const { bavail, bsize } = await fs.promises.statfs(spoolDir);
    const freeBytes = bavail * bsize;
    const says = `${shown}, on ${kindOf(spoolDir).name}, has ${formatBytes(freeBytes)} of room`;
    const facts = { path: spoolDir, freeBytes };
    if (freeBytes >= spoolLimitBytes) return ok('spool', says, facts);
    const less = `less than one copy of --spool-limit ${formatBytes(spoolLimitBytes)}: ${without}`;
    return warn('spool', `${says}, ${less}`, mend, facts);
  } catch (error) {
    return warn('spool', `cannot write in ${shown}: ${reasonOf(error)}: ${without}`, mend);
  }
}

/** The memory to request from the scheduler, beyond what the task itself needs. */
export function examineMemory({ workdir, spoolDir, spoolLimitBytes, memory }: Places): Finding {
  const parts = [`${formatBytes(CAPTURE_BYTES)} for capture`];
  if (isMemory(workdir)) parts.push('all files of the work directory, which is memory');
  if (isMemory(spoolDir))
    parts.push(`copies of up to ${formatBytes(spoolLimitBytes)} in the spool, which is memory`);
  const add = `add to the memory of the task: ${parts.join(', ')}`;
  const use = memory();
  if (use === undefined) return ok('memory', `${add}; no limit of a cgroup can be seen here`);
  const { used, limit } = use;
  const says = `${add}; this job has ${formatBytes(limit)}, of which ${formatBytes(used)} are in use`;
  const facts = { usedBytes: used, limitBytes: limit, captureBytes: CAPTURE_BYTES };
  if (limit - used >= CAPTURE_BYTES) return ok('memory', says, facts);
  return warn('memory', says, 'ask the scheduler for more, such as --mem of sbatch', facts);
}

/**
 * Do other nodes see a store that is a directory? `isJob`: a scheduler started capture, so the next attempt may run on
 * another node.
 */
export function examineStorePlace(directory: string, isJob: boolean): Finding {
  const { type, name, isNetwork } = kindOf(directory);
  const says = `${showPath(directory)} is on ${name}`;
  const facts = { path: directory, fileSystem: type };
  if (isNetwork) return ok('place', says, facts);
  if (type === 'tmpfs' || type === 'overlay')
    return warn('place', `${says}: it is lost with this machine or container`, STORE_MEND, facts);
  if (isJob) return warn('place', `${says}: another node would not see it`, STORE_MEND, facts);
  return ok('place', `${says}: only this machine sees it`, facts);
}

interface Kind {
  /** As /proc names it: `ext4`. */
  readonly type: string;
  /** For people. */
  readonly name: string;
  readonly isNetwork: boolean;
}

/** The kind of file system. A directory that does not exist yet will be on that of the one above it. */
export function kindOf(dir: string): Kind {
  if (!fs.existsSync(encodePath(dir)) && dir !== '/') return kindOf(path.dirname(dir));
  const real = fs.realpathSync(encodePath(dir));
  const { type }: Pick<Mount, 'type'> = mountOf(real) ?? { type: 'an unknown file system' };
  const network = networkFileSystem(fileSystemType(real));
  if (network !== undefined) return { type, name: `a network file system (${type})`, isNetwork: true };
  return { type, name: type === 'tmpfs' ? 'tmpfs, which is memory' : type, isNetwork: false };
}

function isMemory(dir: string): boolean {
  return kindOf(dir).type === 'tmpfs';
}

function usedOf({ of, used, limit }: DiskUse): string {
  const share = limit > 0 ? ` (${Math.round((100 * used) / limit)} %)` : '';
  return of === 'files'
    ? `${used} of ${limit} files used${share}`
    : `${formatBytes(used)} of ${formatBytes(limit)} of ${of} used${share}`;
}

function factsOf(uses: readonly DiskUse[]): Readonly<Record<string, number>> {
  return Object.fromEntries(
    uses.flatMap(({ of, used, limit }) => [
      [`${of}Used`, used],
      [`${of}Limit`, limit],
    ]),
  );
}
