// Do events arrive in the work directory, and does the kernel report writers? Tries both on its own files, as a run
// does, and counts this user's remaining inotify instances and watches. Leaves nothing behind.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { errnoOf, reasonOf } from '../model/errors.ts';
import { OWN_DIR } from '../model/file/manifest.ts';
import { encodePath } from '../model/path.ts';
import { plural } from '../model/units.ts';
import type { WriterState } from '../native/files.ts';
import { makePrivateDir } from '../native/private-dir.ts';
import { processIds } from '../native/processes.ts';
import { removeTree } from '../native/remove-tree.ts';
import { openTestedReader } from '../watch/self-test.ts';
import { limitHint } from '../watch/warnings.ts';
import type { WatchSystem } from '../watch/watching.ts';
import { type Finding, ok, warn } from './finding.ts';

export interface Watching {
  readonly system: WatchSystem;
  readonly inotifyUse: () => InotifyUse;
  /** The kernel's answer to the question for writers. */
  readonly writerOf: (fd: number) => WriterState;
}

/** This user's inotify limits, and the use by all visible processes. */
export interface InotifyUse {
  readonly instances: number;
  readonly mostInstances: number;
  readonly watches: number;
  readonly mostWatches: number;
}

const LATER = 'capture scans instead: it finds files later, but finds them all';

/** `workdir` is writable. */
export async function* examineWatching(workdir: string, watching: Watching): AsyncGenerator<Finding> {
  const probe = makeProbe(workdir);
  try {
    yield await examineEvents(probe.path, watching);
    yield leases(probe.path, watching);
  } finally {
    await probe.remove();
  }
}

async function examineEvents(dir: string, { system, inotifyUse }: Watching): Promise<Finding> {
  const use = inotifyUse();
  const facts = { ...use };
  const counts =
    `${use.instances} of ${use.mostInstances} instances and ${use.watches} of ${use.mostWatches} watches ` +
    'of this user are in use';
  try {
    const reader = await openTestedReader(system, dir);
    await reader.close();
  } catch (error) {
    const mend = limitHint(error) ?? 'let the task work in a local directory (--workdir)';
    return warn('inotify', `cannot watch for closes: ${reasonOf(error)}; ${LATER} (${counts})`, mend, facts);
  }
  const tasks = os.availableParallelism();
  if (use.mostInstances - use.instances < tasks) {
    const says = `closes are reported, but ${counts}: too few for ${plural(tasks, 'task')} at once on this node`;
    return warn('inotify', says, 'raise the limit as root: sysctl fs.inotify.max_user_instances=1024', facts);
  }
  if (use.watches > NEARLY_ALL * use.mostWatches) {
    const says = `closes are reported, but ${counts}: a task needs one for each directory`;
    return warn(
      'inotify',
      says,
      'raise the limit as root: sysctl fs.inotify.max_user_watches=1048576',
      facts,
    );
  }
  return ok('inotify', `closes are reported; ${counts}`, facts);
}

const NEARLY_ALL = 0.9;

/** With a writer, and without one. */
function leases(dir: string, { writerOf }: Watching): Finding {
  const file = path.join(dir, 'written');
  const writer = fs.openSync(file, 'w');
  const reader = fs.openSync(file, 'r');
  let seen: readonly WriterState[];
  try {
    seen = [writerOf(reader)];
    fs.closeSync(writer);
    seen = [...seen, writerOf(reader)];
  } finally {
    fs.closeSync(reader);
  }
  if (seen.join() === 'writer,none') return ok('leases', 'the kernel tells who still writes a file');
  return warn(
    'leases',
    'the kernel does not tell who still writes: a file counts as whole after one second without change',
    'let the task work in a local directory (--workdir)',
  );
}

interface Probe {
  readonly path: string;
  remove(): Promise<void>;
}

/** In capture's own directory, which a capture that watches this work directory ignores. */
function makeProbe(workdir: string): Probe {
  const own = path.join(workdir, OWN_DIR);
  const isOurs = !fs.existsSync(encodePath(own));
  makePrivateDir(own);
  const dir = fs.mkdtempSync(path.join(own, 'doctor-'));
  return {
    path: dir,
    remove: async () => {
      await removeTree(dir);
      if (isOurs) removeIfEmpty(own);
    },
  };
}

function removeIfEmpty(dir: string): void {
  try {
    fs.rmdirSync(dir);
  } catch (error) {
    if (errnoOf(error) !== 'ENOTEMPTY') throw error; // a run has begun there in between
  }
}

/** Counts inotify instances and watches of processes; default: all of this user (proc_pid_fdinfo(5)). */
export function inotifyUseHere(pids = ownProcesses()): InotifyUse {
  const limit = (name: string): number => Number(readText(`/proc/sys/fs/inotify/${name}`) || 0);
  const found = pids.flatMap(inotifyOf);
  return {
    instances: found.length,
    mostInstances: limit('max_user_instances'),
    watches: found.reduce((sum, watches) => sum + watches, 0),
    mostWatches: limit('max_user_watches'),
  };
}

function ownProcesses(): readonly number[] {
  const us = process.geteuid?.();
  return processIds().filter((pid) => fs.statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === us);
}

/** The number of watches of each inotify instance of a process. */
function inotifyOf(pid: number): readonly number[] {
  return namesIn(`/proc/${pid}/fd`)
    .filter((fd) => linkOf(`/proc/${pid}/fd/${fd}`) === 'anon_inode:inotify')
    .map((fd) => readText(`/proc/${pid}/fdinfo/${fd}`).match(/^inotify wd:/gm)?.length ?? 0);
}

function namesIn(dir: string): readonly string[] {
  try {
    return fs.readdirSync(dir);
  } catch {
    return []; // ended, or hidden
  }
}

function linkOf(link: string): string {
  try {
    return fs.readlinkSync(link);
  } catch {
    return '';
  }
}

function readText(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
