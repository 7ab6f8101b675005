// Before the task starts: fetches inputs, results that are inputs, and the newest whole checkpoint generation into the
// work directory. Places no file before all of them were verified.
import { generationName, type Judgement } from '../../model/checkpoint/history.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import type { Fingerprint } from '../../model/file/file-state.ts';
import { keptPrefix, parseKept } from '../../model/format/keys.ts';
import { originOf } from '../../model/format/origin.ts';
import type { Generation, Lacking, StoredFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { factsBeneath } from '../../native/files.ts';
import { decompressStream } from '../../restore/decompress.ts';
import { fetchFiles, type Staged } from '../../restore/fetch.ts';
import { findInputs } from '../../restore/inputs.ts';
import { surveyLocal, wantedCompanions } from '../../restore/local.ts';
import { describeSetAside, placeAll, withdraw } from '../../restore/place.ts';
import type { Source } from '../../restore/source.ts';
import type { Store } from '../../store/contract/store.ts';
import { verify } from '../checkpoints/verify.ts';
import { mayBeOverwritten, storedNow } from '../queue/overwritten.ts';
import { missingInputs, neededOf, searchOf, reportUnusedInputs } from './input-search.ts';
import { findLacking } from './lacking.ts';
import { setLeftoversAside } from './leftovers.ts';
import { declaredOf, orderOf, type RestoreJob, tellDoubt } from './restore-job.ts';

/** Requests in flight at once. */
const PARALLEL = 4;

export interface Restored {
  /** The generation that is in the work directory now. */
  readonly generation: Generation | undefined;
  /** Members in the state in which they were placed, which is that of stored objects. */
  readonly members: readonly { readonly file: StoredFile; readonly facts: Fingerprint }[];
  readonly files: number;
  /** What was found out about the generations that were tried. */
  readonly judgements: readonly Judgement[];
  /** What results lack because the task resumes from it. */
  readonly lacking: readonly Lacking[];
  /** Results that are in the store and that no record names yet. */
  readonly unrecorded: readonly StoredFile[];
}

export async function restore(job: RestoreJob): Promise<Restored> {
  const inputs = await restoreInputs(job);
  if (!job.settings.restore || job.history.generations.length === 0) {
    return { ...NOTHING, files: inputs.size };
  }
  const { generation, judgements } = await restoreCheckpoint(job);
  if (generation === undefined) return { ...NOTHING, files: inputs.size, judgements };
  const members = generation.members.flatMap((file) => {
    const facts = factsBeneath(job.root, file.path);
    return facts === undefined || facts.size !== file.size ? [] : [{ file, facts }];
  });
  const files = inputs.size + generation.members.length + generation.companions.length;
  const found = await findLacking({ ...job, inputs }, generation);
  return { generation, members, files, judgements, ...found };
}

const NOTHING: Restored = {
  generation: undefined,
  members: [],
  files: 0,
  judgements: [],
  lacking: [],
  unrecorded: [],
};

/** Returns what it placed. */
async function restoreInputs(job: RestoreJob): Promise<ReadonlySet<RelPath>> {
  const { settings, history, manifest, store, from } = job;
  const recorded = settings.restore
    ? [...history.results.values()].filter(({ path }) => manifest.rolesOf(path).input)
    : [];
  const earlier = await resumedInputs(job, recorded);
  const known = new Set(earlier.map(({ path }) => path));
  const resumed = await bring(job, store, earlier, 'resumed');
  const patterns = settings.manifest.inputs;
  let found = await findInputs(searchOf(job, from, known), patterns);
  const here = await bring(job, from, found.sources, 'input');
  if (found.missing.length > 0 && from !== store) {
    const second = await findInputs(searchOf(job, store, known), found.missing);
    here.push(...(await bring(job, store, second.sources, 'input')));
    found = { ...second, ofOtherRuns: [...found.ofOtherRuns, ...second.ofOtherRuns] };
  }
  reportUnusedInputs(job, found);
  const needed = neededOf(found.missing, manifest);
  if (needed.length > 0) throw await missingInputs(job, needed, found.ofOtherRuns);
  return new Set([...resumed, ...here]);
}

/**
 * Results that are inputs, in their stored state: what an attempt pushed last before it died is newer than its record,
 * and an outdated record must not keep a task from ever starting again. A result that is gone is looked for like any
 * other input.
 */
async function resumedInputs(job: RestoreJob, files: readonly StoredFile[]): Promise<readonly Source[]> {
  const { store, history, log, signal } = job;
  const otherRuns = history.attempts.some(({ sameRun }) => !sameRun);
  if (!mayBeOverwritten(history) && !otherRuns) return files;
  const sources: Source[] = [];
  for (const recorded of files) {
    const file = otherRuns ? await ownCopy(job, recorded) : recorded;
    const there = file === undefined ? undefined : await storedNow(store, file, signal);
    if (there !== undefined) sources.push(there);
    if (there === undefined) log.warn(`${showPath(recorded.path)} is recorded and not in the store any more`);
    else if (there !== file) log.info(`${showPath(recorded.path)} in the store is newer than its record`);
  }
  return sources;
}

/**
 * Another run may have stored its own result under the same key; then ours was kept beside it. Undefined: it is
 * nowhere.
 */
async function ownCopy(
  { store, scope, settings, signal }: RestoreJob,
  file: StoredFile,
): Promise<StoredFile | undefined> {
  const head = await store.head(file.key, signal);
  if (head?.meta['push'] === file.push) return file;
  if (head !== undefined && originOf(file.key, head.meta)?.runId === settings.identity.runId) return file;
  // Only the older objects that exist: a record may name any number.
  const prefix = keptPrefix(file.path, scope);
  for await (const { key } of store.list(prefix, signal)) {
    if (parseKept(key.slice(prefix.length)) === undefined) continue;
    if ((await store.head(key, signal))?.meta['push'] === file.push) return { ...file, key };
  }
  return undefined;
}

/** Fetches and places files, each independently of the others. Returns those that were fetched. */
async function bring(
  job: RestoreJob,
  store: Store,
  sources: readonly Source[],
  role: 'input' | 'resumed',
): Promise<RelPath[]> {
  const { root, settings, signal } = job;
  const surveyed = await surveyLocal(root, sources, { role, onLocal: settings.onLocal, signal });
  const wanted = surveyed.filter(({ decision }) => decision !== 'keep').map(({ source }) => source);
  if (wanted.length === 0) return [];
  const staged = await fetchAll(job, store, wanted);
  try {
    const broken = describeBroken(staged);
    if (broken !== undefined) {
      throw new CaptureError(EXIT.unavailable, `an input cannot be restored from ${store.url}: ${broken}`, {
        hint: 'put a good copy into the work directory: what stands there is not fetched',
      });
    }
    placeAndTell(job, staged);
    return wanted.map(({ path }) => path);
  } finally {
    await staged.close();
  }
}

/** The generation that was placed; undefined if the local files stay. Throws if none is whole. */
async function restoreCheckpoint(job: RestoreJob): Promise<Pick<Restored, 'generation' | 'judgements'>> {
  const { history, settings, store, log } = job;
  const judgements: Judgement[] = [];
  const isVerified = settings.verify?.atRestore === true;
  const order = orderOf(job.history, isVerified, log);
  for (const [at, stored] of order.entries()) {
    const generation = declaredOf(stored, job.manifest, log);
    const tried = await tryGeneration(job, generation);
    const name = generationName(generation);
    if (tried.kind === 'local-stays') return { generation: undefined, judgements };
    if (tried.kind === 'restored') {
      tellDoubt(generation, isVerified, log);
      if (isVerified) judgements.push({ generation: name, good: true });
      return { generation, judgements };
    }
    judgements.push({ generation: name, good: false });
    const next = order[at + 1];
    const then = next === undefined ? 'there is no other' : `trying ${generationName(next)}`;
    log.warn(`checkpoint ${name} cannot be restored (${tried.why}): ${then}`, {
      event: 'damaged',
      generation: name,
    });
  }
  throw new CaptureError(
    EXIT.unavailable,
    `${plural(history.generations.length, 'checkpoint')} recorded in ${store.url}, and none can be restored`,
    { hint: 'look at the warnings above; --no-restore starts from nothing' },
  );
}

type Tried =
  | { readonly kind: 'restored' }
  | { readonly kind: 'local-stays' }
  | { readonly kind: 'broken'; readonly why: string };

async function tryGeneration(job: RestoreJob, generation: Generation): Promise<Tried> {
  const { root, settings, store, signal, log } = job;
  if (generation.members.length + generation.companions.length === 0)
    return { kind: 'broken', why: 'this run declares none of its files' };
  const surveyed = await surveyLocal(root, generation.members, {
    role: 'resumed',
    onLocal: settings.onLocal,
    signal,
  });
  if (surveyed.some(({ decision, local }) => decision === 'keep' && local === 'differs')) {
    // A set belongs to one moment: either all of it is the stored one, or all of it the local one.
    log.warn('the local checkpoint is newer than the stored one and stays (--on-local newest)');
    return { kind: 'local-stays' };
  }
  const wanted: readonly Source[] = [
    ...surveyed.filter(({ decision }) => decision !== 'keep').map(({ source }) => source),
    ...(await wantedCompanions(root, generation, signal)),
  ];
  const staged = await fetchAll(job, store, wanted);
  try {
    const why = describeBroken(staged);
    if (why !== undefined) return { kind: 'broken', why };
    placeAndTell(job, staged);
    await setLeftoversAside(job, generation);
  } finally {
    await staged.close();
  }
  const failure = await verifyRestored(job, generation);
  return failure === undefined ? { kind: 'restored' } : { kind: 'broken', why: failure };
}

/** Why the user's own check refuses the generation in the work directory, whose files are then removed. */
async function verifyRestored(
  { settings, root, signal, log, caller }: RestoreJob,
  generation: Generation,
): Promise<string | undefined> {
  if (settings.verify?.atRestore !== true) return undefined;
  const { command } = settings.verify;
  const name = generationName(generation);
  const why = await verify({ command, workdir: root.path, generation: name, caller, signal });
  if (why === undefined) return undefined;
  for (const { path, aside } of withdraw(root, generation))
    log.warn(`${showPath(path)} is longer here than in the store: the local one is now ${showPath(aside)}`);
  return why;
}

async function fetchAll(job: RestoreJob, store: Store, sources: readonly Source[]): Promise<Staged> {
  const { root, signal, progress } = job;
  const sizes = sources.map(({ size }) => size);
  const bytes = sizes.reduce<number | undefined>(
    (sum, size) => (sum === undefined || size === undefined ? undefined : sum + size),
    0,
  );
  progress.begin('restoring', sources.length, bytes);
  try {
    return await fetchFiles(store, sources, root, {
      signal,
      parallel: PARALLEL,
      decompress: decompressStream,
      progress: () => progress.file(),
    });
  } finally {
    progress.end();
  }
}

function describeBroken(staged: Staged): string | undefined {
  const broken = staged.files.find(({ kind }) => kind !== 'ok');
  if (broken === undefined || broken.kind === 'ok') return undefined;
  const why = broken.kind === 'missing' ? 'is missing' : `is ${broken.kind}: ${broken.why}`;
  return `${showPath(broken.source.path)} ${why}`;
}

function placeAndTell({ root, log }: RestoreJob, staged: Staged): void {
  for (const { setAside } of placeAll(root, staged)) {
    if (setAside !== undefined) log.warn(describeSetAside(setAside));
  }
}
