// `--dry-run`: the identity of the run, which files match now and their keys, and what would be fetched and restored.
// Reads the store and the work directory, and writes nothing. Its exit status is that of the real run, as far as
// reading can tell.
import fs from 'node:fs';
import { generationName, type History } from '../../model/checkpoint/history.ts';
import type { CaptureError } from '../../model/errors.ts';
import { compileManifest, type Manifest } from '../../model/file/manifest.ts';
import { firstLine } from '../../model/format/first-line.ts';
import {
  checkpointKey,
  type KeyScope,
  resultKey,
  type SealedEnding,
  segmentKey,
} from '../../model/format/keys.ts';
import type { MessageFields } from '../../model/format/message-fields.ts';
import { keyIndex, type Settings, type StoreSettings } from '../../model/format/settings.ts';
import { submissionNote } from '../../model/outcome/other-runs.ts';
import { encodePath, showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { listRecords } from '../../records/list.ts';
import { findInputs } from '../../restore/inputs.ts';
import type { Source } from '../../restore/source.ts';
import { openSealKeys } from '../../seal/keys.ts';
import { sealedStore } from '../../seal/sealed-store.ts';
import type { Store } from '../../store/contract/store.ts';
import { openStore } from '../../store/open.ts';
import { findAll, type FoundFile, type Walk } from '../../watch/scan.ts';
import { doneAttempt } from './done-already.ts';
import { type InputJob, missingInputs, neededOf, searchOf } from './input-search.ts';
import { isMissing, nameHint, type NameSearch } from './opening-lines.ts';
import { openPatience, startLimitMs } from './patience.ts';
import { declaredOf, orderOf, tellDoubt } from './restore-job.ts';
import { readHistory } from './restore-only.ts';
import { sealRun } from './sealing.ts';

/** `hint`: what to do about it. */
export interface DryRunLine {
  readonly text: string;
  readonly hint?: string | undefined;
}

export interface DryRun {
  readonly lines: readonly DryRunLine[];
  /** Why the run would not start. */
  readonly failure: CaptureError | undefined;
}

export async function dryRun(settings: Settings, given: AbortSignal): Promise<DryRun> {
  const patience = openPatience({ limitMs: startLimitMs(settings), signal: given, outage: {} });
  const { signal } = patience;
  const keys = await openSealKeys(settings.seal, process.env, { signal });
  const open = async (at: StoreSettings): Promise<Store> =>
    sealedStore(patience.over(await openStore(at, { onTry: patience.tried })), { keys, reader: 'look' });
  const store = await open(settings.to);
  const from = settings.from === undefined ? store : await open(settings.from);
  try {
    if (settings.skipDone) {
      const asked: KeyScope = { taskName: settings.identity.taskName, index: keyIndex(settings.identity) };
      const done = await doneAttempt(store, await listRecords(store, asked, signal), settings, signal);
      if (done !== undefined)
        return { lines: [{ text: `done already in attempt ${done} (--skip-done)` }], failure: undefined };
    }
    const problems: string[] = [];
    const { history, scope, listing } = await readHistory(
      store,
      settings,
      (line) => problems.push(line),
      signal,
    );
    const { newestAttempt } = listing;
    await sealRun({ keys, inner: store, listing, sealKey: undefined, isNew: true, signal });
    const manifest = compileManifest(settings.manifest);
    const unreadable: string[] = [];
    const found = await findIn(
      settings.workdir,
      { interest: manifest, onUnreadable: (dir) => unreadable.push(dir) },
      signal,
    );
    const note = submissionNote(history, {
      before: newestAttempt + 1,
      url: store.url,
      isResult: (path) => manifest.rolesOf(path).result,
    });
    const inputs = await fetches({ settings, scope, manifest, store, from, signal }, history);
    const newStore = (await isMissing(settings.to.url))
      ? 'there is no such directory: the run makes it'
      : undefined;
    const asLine = (text: string): DryRunLine => ({ text });
    const lines: readonly DryRunLine[] = [
      ...[firstLine(settings, newestAttempt + 1, newStore), ...problems].map(asLine),
      ...(note === undefined ? [] : [{ text: note.message, hint: note.hint }]),
      ...unreadable.map((dir) => asLine(`cannot read ${showPath(dir)}`)),
      ...matches(found, manifest, {
        scope,
        attempt: newestAttempt + 1,
        sealed: keys.ending,
      }).map(asLine),
      ...inputs.lines.map(asLine),
      ...(await restores(settings, { store, scope, history, log: { debug: () => undefined }, signal })),
    ];
    return { lines, failure: inputs.failure };
  } finally {
    patience.close();
    if (from !== store) await from.close();
    await store.close();
  }
}

async function findIn(
  workdir: string,
  walk: Omit<Walk, 'root'>,
  signal: AbortSignal,
): Promise<readonly FoundFile[]> {
  const root = { fd: fs.openSync(encodePath(workdir), fs.constants.O_DIRECTORY), path: workdir };
  try {
    return await findAll({ ...walk, root }, 'thread', signal);
  } finally {
    fs.closeSync(root.fd);
  }
}

function matches(
  found: readonly FoundFile[],
  manifest: Manifest,
  {
    scope,
    attempt,
    sealed,
  }: { readonly scope: KeyScope; readonly attempt: number; readonly sealed: SealedEnding | undefined },
): readonly string[] {
  const endings = `[.zst]${sealed ?? ''}`;
  if (found.length === 0) return ['matches: nothing in the work directory yet'];
  return found.flatMap(({ path, facts }) => {
    const { result, checkpoint, input, companion } = manifest.rolesOf(path);
    const size = formatBytes(facts.size);
    const at = { attempt, generation: 1 };
    return [
      ...(result ? [`result ${showPath(path)} (${size}) -> ${resultKey(path, scope, false)}${endings}`] : []),
      ...(checkpoint
        ? [`checkpoint ${showPath(path)} (${size}) -> ${checkpointKey(path, scope, at, false)}${endings}`]
        : []),
      ...(companion
        ? [
            `companion ${showPath(path)} (${size}) -> ${segmentKey(path, scope, { ...at, segment: 1 }, false)}${endings}`,
          ]
        : []),
      ...(input ? [`input ${showPath(path)} (${size})`] : []),
    ];
  });
}

/** Inputs that are missing, looked for as a run would. */
async function fetches(
  job: InputJob,
  { results }: History,
): Promise<{ readonly lines: readonly string[]; readonly failure: CaptureError | undefined }> {
  const { settings, manifest, store, from } = job;
  const resumed = settings.restore
    ? [...results.values()].filter(({ path }) => manifest.rolesOf(path).input)
    : [];
  const known = new Set(resumed.map(({ path }) => path));
  const first = await findInputs(searchOf(job, from, known), settings.manifest.inputs);
  const second = from === store ? undefined : await findInputs(searchOf(job, store, known), first.missing);
  const needed = neededOf((second ?? first).missing, manifest);
  const line = ({ path, key }: Pick<Source, 'path' | 'key'>, { url }: Store): string =>
    `fetch: input ${showPath(path)} from ${url}, ${key}`;
  return {
    lines: [
      ...resumed.map((file) => line(file, store)),
      ...first.sources.map((source) => line(source, from)),
      ...(second?.sources ?? []).map((source) => line(source, store)),
    ],
    failure:
      needed.length === 0
        ? undefined
        : await missingInputs(job, needed, [...first.ofOtherRuns, ...(second?.ofOtherRuns ?? [])]),
  };
}

async function restores(settings: Settings, search: NameSearch): Promise<readonly DryRunLine[]> {
  const { history } = search;
  if (!settings.restore) return [{ text: 'restore: nothing (--no-restore)' }];
  const said: DryRunLine[] = [];
  const log = {
    warn: (text: string, told?: MessageFields) => void said.push({ text, hint: told?.hint }),
  };
  const isVerified = settings.verify?.atRestore === true;
  const [stored] = orderOf(history, isVerified, log);
  if (stored === undefined)
    return [{ text: 'restore: no checkpoint is stored', hint: await nameHint(search) }];
  const newest = declaredOf(stored, compileManifest(settings.manifest), log);
  tellDoubt(newest, isVerified, log);
  const members = [...newest.members, ...newest.companions].map(
    ({ path, size }) => `${showPath(path)} (${formatBytes(size)})`,
  );
  const text = `restore: checkpoint ${generationName(newest)} of ${newest.at}: ${members.join(', ')}`;
  return [...said, { text }];
}
