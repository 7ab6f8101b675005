// Read this first. `capture doctor`: would a run work here? Examines this node, and a store, as a run would use them;
// each part has its own file. Yields its findings one by one, and leaves nothing behind.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { NoBinaryError } from '../native/binary.ts';
import { writerState } from '../native/files.ts';
import { probeCloud } from '../notices/cloud-probe.ts';
import { cgroupMemory } from '../native/cgroup.ts';
import { defaultGraceMs } from '../scheduler/grace.ts';
import { identify } from '../scheduler/identity.ts';
import type { Mistake } from '../model/errors.ts';
import { encodePath } from '../model/path.ts';
import { type Store, StoreError } from '../store/contract/store.ts';
import { storeDirectory } from '../store/url.ts';
import { thisSystem } from '../watch/watcher.ts';
import { fail, type Finding, warn } from './finding.ts';
import { askSlurm, examineNotices, examineScheduler, type Job } from './job.ts';
import { examineMemory, examineSpool, examineStorePlace, examineWorkdir, type Places } from './places.ts';
import { examineProgram, type Packages, thesePackages } from './program.ts';
import { examineStore } from './store.ts';
import { SIZES_BYTES } from './throughput.ts';
import { examineWatching, inotifyUseHere, type Watching } from './watching.ts';

/** The parts of this node that a run would use; tests replace some of them. */
export interface Node {
  readonly packages: Packages;
  readonly places: Places;
  readonly watching: Watching;
  readonly job: Job;
}

export interface NodeOptions {
  /** Absolute. */
  readonly workdir: string;
  readonly spoolDir: string | undefined;
  readonly spoolLimitBytes: number;
  readonly env: NodeJS.ProcessEnv;
  /** As a run's command line reads them. */
  readonly outside: Pick<Places, 'workdirProblem'> & Pick<Job, 'readText'>;
  readonly signal: AbortSignal;
}

/** How long a cloud's metadata service has to answer. */
const NOTICE_WITHIN_MS = 8000;

export function thisNode(options: NodeOptions): Node {
  const { workdir, spoolDir = os.tmpdir(), spoolLimitBytes, env, outside, signal } = options;
  const { workdirProblem, readText } = outside;
  // The lease test may trigger it, and its default action would end the process (fcntl(2)).
  process.on('SIGIO', () => undefined);
  return {
    packages: thesePackages,
    places: { workdir, spoolDir, spoolLimitBytes, workdirProblem, memory: cgroupMemory },
    watching: { system: thisSystem, inotifyUse: inotifyUseHere, writerOf: writerState },
    job: {
      env,
      readText,
      probeCloud: () => probeCloud({ env, withinMs: NOTICE_WITHIN_MS, signal }),
      askSlurm: () => askSlurm(env, signal),
    },
  };
}

export async function* examineNode({ packages, places, watching, job }: Node): AsyncGenerator<Finding> {
  let hasLibc = true;
  for await (const finding of examineProgram(packages)) {
    if (finding.check === 'koffi') hasLibc = finding.level !== 'fail';
    yield finding;
  }
  const workdir = await examineWorkdir(places);
  yield workdir;
  // If nothing can be written there, no file can be closed.
  if (workdir.level !== 'fail' && hasLibc) yield* examineWatching(places.workdir, watching);
  yield await examineSpool(places);
  yield examineMemory(places);
  yield await examineScheduler(job);
  yield await examineNotices(job);
}

export interface StoreOptions {
  /** Opens the store; nothing uses it earlier. */
  readonly open: (warn: (warning: Mistake) => void) => Promise<Store>;
  readonly url: string;
  readonly job: Pick<Job, 'env' | 'readText'>;
  readonly signal: AbortSignal;
}

export async function* examineStoreAt({ open, url, job, signal }: StoreOptions): AsyncGenerator<Finding> {
  const { env, readText } = job;
  const directory = storeDirectory(url);
  const identity = identify(env, undefined, readText);
  if (directory !== undefined)
    yield examineStorePlace(directory, 'engine' in identity && identity.engine !== undefined);
  const before = directory === undefined ? undefined : removeNewDirs(directory);
  const warnings: Mistake[] = [];
  try {
    const store = await open((warning) => warnings.push(warning)).catch(refusal);
    if (!('put' in store)) return yield store;
    for (const { message, hint } of warnings) yield warn('encryption', message, hint);
    yield* examineOpened(store, { graceMs: defaultGraceMs(env), sizesBytes: SIZES_BYTES, signal });
  } catch (error) {
    // examineProgram has said that, and what cannot be checked.
    if (!(error instanceof NoBinaryError)) throw error;
  } finally {
    before?.close();
  }
}

async function* examineOpened(
  store: Store,
  how: Omit<Parameters<typeof examineStore>[0], 'store'>,
): AsyncGenerator<Finding> {
  try {
    yield* examineStore({ store, ...how });
  } finally {
    await store.close();
  }
}

/** The variables and files of its credentials contradict each other, or name something that does not exist. */
function refusal(error: unknown): Finding {
  if (!(error instanceof StoreError)) throw error;
  return fail(
    'store',
    error.message,
    error.hint ?? 'check the variables that name the store and its credentials',
  );
}

/**
 * The driver creates the store's directory at its first put, and the exam of an unused store must not leave one. Call this
 * before the store is used. `close` removes the empty directories that did not exist before.
 */
export function removeNewDirs(directory: string): { close(): void } {
  const missing: string[] = [];
  for (let at = directory; !fs.existsSync(encodePath(at)); at = path.dirname(at)) missing.push(at);
  return {
    close: () => {
      if (missing.length === 0) return;
      removeEmpty(directory);
      for (const dir of missing.slice(1)) tryRemove(dir);
    },
  };
}

function removeEmpty(dir: string): void {
  for (const entry of entriesOf(dir)) if (entry.isDirectory()) removeEmpty(path.join(dir, entry.name));
  tryRemove(dir);
}

function entriesOf(dir: string): readonly fs.Dirent[] {
  try {
    return fs.readdirSync(encodePath(dir), { withFileTypes: true });
  } catch {
    return [];
  }
}

/** Not empty: somebody else uses it by now, so it stays. */
function tryRemove(dir: string): void {
  try {
    fs.rmdirSync(encodePath(dir));
  } catch {
    // It stays.
  }
}
