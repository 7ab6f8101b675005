// Read this first. `capture doctor`: would a run work here? Looks at this node, and at a store, as a run would use them;
// each part is a file of its own. Gives what it finds one after the other, and leaves nothing behind.
import os from 'node:os';
import { writerState } from '../native/files.ts';
import { audibleCloud } from '../notices/audible.ts';
import { cgroupMemory } from '../native/cgroup.ts';
import { defaultGraceMs } from '../scheduler/grace.ts';
import { identify } from '../scheduler/identity.ts';
import type { Mistake } from '../model/errors.ts';
import { type Store, StoreError } from '../store/contract/store.ts';
import { storeDirectory } from '../store/url.ts';
import { thisSystem } from '../watch/watcher.ts';
import { fail, type Finding, warn } from './finding.ts';
import { examineNotices, examineScheduler, type Job } from './job.ts';
import { examineMemory, examineSpool, examineWorkdir, type Places } from './places.ts';
import { examineProgram, type Packages, thesePackages } from './program.ts';
import { examineStore } from './store.ts';
import { examineStorePlace, keepAsItWas } from './store-place.ts';
import { SIZES_BYTES } from './throughput.ts';
import { examineWatching, inotifyUseHere, type Watching } from './watching.ts';

/** What a run on this node would use; a test replaces parts of it. */
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
  /** As the command line of a run reads them. */
  readonly outside: Pick<Places, 'workdirProblem'> & Pick<Job, 'readText'>;
  readonly signal: AbortSignal;
}

/** What the metadata service of a cloud gets to answer. */
const NOTICE_WITHIN_MS = 8000;

export function thisNode(options: NodeOptions): Node {
  const { workdir, spoolDir = os.tmpdir(), spoolLimitBytes, env, outside, signal } = options;
  const { workdirProblem, readText } = outside;
  // The lease that is tried may send it, and its default action would end us (fcntl(2)).
  process.on('SIGIO', () => undefined);
  return {
    packages: thesePackages,
    places: { workdir, spoolDir, spoolLimitBytes, workdirProblem, memory: cgroupMemory },
    watching: { system: thisSystem, inotifyUse: inotifyUseHere, writerOf: writerState },
    job: { env, readText, audible: () => audibleCloud({ env, withinMs: NOTICE_WITHIN_MS, signal }) },
  };
}

export async function* examineNode({ packages, places, watching, job }: Node): AsyncGenerator<Finding> {
  yield* examineProgram(packages);
  const workdir = await examineWorkdir(places);
  yield workdir;
  // Where nothing can be written no file can be closed.
  if (workdir.level !== 'fail') yield* examineWatching(places.workdir, watching);
  yield await examineSpool(places);
  yield examineMemory(places);
  yield examineScheduler(job);
  yield await examineNotices(job);
}

export interface StoreOptions {
  /** Opens it; nothing of it is used before. */
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
  const before = directory === undefined ? undefined : keepAsItWas(directory);
  const warnings: Mistake[] = [];
  const store = await open((warning) => warnings.push(warning)).catch(refusal);
  if (!('put' in store)) return yield store;
  for (const { message, hint } of warnings) yield warn('encryption', message, hint);
  try {
    yield* examineStore({ store, graceMs: defaultGraceMs(env), sizesBytes: SIZES_BYTES, signal });
  } finally {
    await store.close();
    before?.close();
  }
}

/** What the AWS environment and files say contradicts itself, or names nothing that there is. */
function refusal(error: unknown): Finding {
  if (!(error instanceof StoreError)) throw error;
  return fail('store', error.message, error.hint ?? 'check the variables AWS_* and the profile');
}
