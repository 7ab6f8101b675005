// `--dry-run`: who this would be, what matches now, under which keys it would be stored, what would be fetched and
// restored. Reads the store and the work directory, and writes nothing. Its exit status is that of the real run, as
// far as reading can tell.
import fs from 'node:fs';
import { generationName, type History } from '../../model/checkpoint/history.ts';
import { afterFailures, restoreOrder } from '../../model/checkpoint/restore-order.ts';
import type { CaptureError } from '../../model/errors.ts';
import { compileManifest, type Manifest } from '../../model/file/manifest.ts';
import { firstLine } from '../../model/format/first-line.ts';
import { checkpointKey, resultKey, segmentKey, type KeyScope } from '../../model/format/keys.ts';
import { keyIndex, type Settings } from '../../model/format/settings.ts';
import { submissionNote } from '../../model/outcome/other-runs.ts';
import { encodePath, showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { listRecords } from '../../records/read.ts';
import { findInputs } from '../../restore/inputs.ts';
import type { Source } from '../../restore/source.ts';
import type { Store } from '../../store/contract/store.ts';
import { openStore } from '../../store/open.ts';
import { findAll, type FoundFile, type Walk } from '../../watch/scan.ts';
import { doneAttempt } from './done-already.ts';
import { missingInputs, neededOf, searchOf, type InputJob } from './inputs-told.ts';
import { nameHint, type NameSearch } from './other-names.ts';
import { Patience, startLimitMs } from './patience.ts';
import { readHistory } from './restore-only.ts';

export interface DryRun {
  readonly text: string;
  /** Why the run would not start. */
  readonly failure: CaptureError | undefined;
}

export async function dryRun(settings: Settings, given: AbortSignal): Promise<DryRun> {
  const patience = new Patience({ limitMs: startLimitMs(settings), signal: given, outage: {} });
  const { signal } = patience;
  const store = patience.over(await openStore(settings.to));
  const from = settings.from === undefined ? store : patience.over(await openStore(settings.from));
  try {
    if (settings.skipDone) {
      const asked: KeyScope = { taskName: settings.identity.taskName, index: keyIndex(settings.identity) };
      const done = await doneAttempt(store, await listRecords(store, asked, signal), settings, signal);
      if (done !== undefined)
        return { text: `done already in attempt ${done} (--skip-done)\n`, failure: undefined };
    }
    const problems: string[] = [];
    const { history, scope, newestAttempt } = await readHistory(
      store,
      settings,
      (line) => problems.push(line),
      signal,
    );
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
    const lines = [
      firstLine(settings, newestAttempt + 1),
      ...problems,
      ...(note === undefined ? [] : [note.message]),
      ...unreadable.map((dir) => `cannot read ${showPath(dir)}`),
      ...matches(found, manifest, scope, newestAttempt + 1),
      ...inputs.lines,
      ...(await restores(settings, { store, scope, history, log: { debug: () => undefined }, signal })),
    ];
    return { text: `${lines.join('\n')}\n`, failure: inputs.failure };
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
  scope: KeyScope,
  attempt: number,
): readonly string[] {
  if (found.length === 0) return ['matches: nothing in the work directory yet'];
  return found.flatMap(({ path, facts }) => {
    const { result, checkpoint, input, companion } = manifest.rolesOf(path);
    const size = formatBytes(facts.size);
    const at = { attempt, generation: 1 };
    return [
      ...(result ? [`result ${showPath(path)} (${size}) -> ${resultKey(path, scope, false)}[.zst]`] : []),
      ...(checkpoint
        ? [`checkpoint ${showPath(path)} (${size}) -> ${checkpointKey(path, scope, at, false)}[.zst]`]
        : []),
      ...(companion
        ? [
            `companion ${showPath(path)} (${size}) -> ${segmentKey(path, scope, { ...at, segment: 1 }, false)}[.zst]`,
          ]
        : []),
      ...(input ? [`input ${showPath(path)} (${size})`] : []),
    ];
  });
}

/** Inputs that are not here, as a run would look for them. */
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
        : missingInputs(job, needed, [...first.ofOtherRuns, ...(second?.ofOtherRuns ?? [])]),
  };
}

async function restores(settings: Settings, search: NameSearch): Promise<readonly string[]> {
  const { history } = search;
  if (!settings.restore) return ['restore: nothing (--no-restore)'];
  const order = restoreOrder(history.generations, settings.verify?.atRestore === true);
  const [newest] = afterFailures(order, history.attempts);
  if (newest === undefined) {
    const hint = await nameHint(search);
    return ['restore: no checkpoint is stored', ...(hint === undefined ? [] : [`  try: ${hint}`])];
  }
  const members = [...newest.members, ...newest.companions].map(
    ({ path, size }) => `${showPath(path)} (${formatBytes(size)})`,
  );
  return [`restore: checkpoint ${generationName(newest)} of ${newest.at}: ${members.join(', ')}`];
}
