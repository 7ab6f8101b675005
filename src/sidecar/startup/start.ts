// Everything before the task may start: lock, settle, claim the attempt, read what earlier ones have stored,
// restore. Either it ends with a context that owns the index, or nothing was started and nothing changed.
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import posix from 'node:path/posix';
import { generationName, judged } from '../../model/checkpoint/history.ts';
import { fixedPart } from '../../model/file/fixed-part.ts';
import { compileManifest } from '../../model/file/manifest.ts';
import { escapePath, recordPrefix, type KeyScope } from '../../model/format/keys.ts';
import type { CaptureRecord } from '../../model/format/records.ts';
import { keyIndex, type Settings } from '../../model/format/settings.ts';
import { fingerprintRow } from '../../model/packed/codecs.ts';
import { PackedMap } from '../../model/packed/packed-map.ts';
import { Paths } from '../../model/packed/paths.ts';
import { encodePath } from '../../model/path.ts';
import { clockMs } from '../../native/clock.ts';
import { openReclaimer } from '../../reclaim/reclaim.ts';
import { describeSettled, settleReclaims } from '../../reclaim/recover.ts';
import { listRecords } from '../../records/read.ts';
import { clearStaging } from '../../restore/fetch.ts';
import type { Store } from '../../store/contract/store.ts';
import { openStore } from '../../store/open.ts';
import { storeDirectory } from '../../store/url.ts';
import { readAttemptFile } from '../run/attempt-file.ts';
import { Baselines } from '../run/baselines.ts';
import type { Context } from '../run/context.ts';
import { openProgress } from '../run/progress.ts';
import { openSpoolFull } from '../run/spool-full.ts';
import { openAttempt, type AttemptOptions } from './attempt.ts';
import { doneAttempt } from './done-already.ts';
import { leaveFor, restoredBefore } from './handover.ts';
import { refuseMissingInputs } from './inputs-told.ts';
import { lockWorkdir } from './lock.ts';
import type { Patience } from './patience.ts';
import { restore, type Restored } from './restore.ts';
import { openSnapshotLanes } from './workers.ts';

export interface Begun {
  readonly context: Context;
  readonly restored: Restored;
  /** The last record, when the sidecar that is being replaced died after it. */
  readonly ended: CaptureRecord | undefined;
  /** Closes everything that start opened, in the right order. */
  readonly close: () => Promise<void>;
}

/** What is asked of the store before the task waits no longer than `patience` does. */
export interface StartOptions extends AttemptOptions {
  readonly patience: Patience;
}

export type Beginning =
  | ({ readonly kind: 'begun' } & Begun)
  | { readonly kind: 'done-already'; readonly attempt: number };

export async function begin(options: StartOptions): Promise<Beginning> {
  const { settings, log, outage, patience } = options;
  const { signal } = patience;
  const owned: (() => Promise<void> | void)[] = [];
  const close = async (): Promise<void> => {
    // oxlint-disable-next-line no-await-in-loop -- in reverse order of opening, each after the one that needs it
    for (const end of owned.toReversed()) await end();
  };
  owned.push(() => patience.close());
  try {
    const fd = fs.openSync(encodePath(settings.workdir), fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    owned.push(() => fs.closeSync(fd));
    const root = { fd, path: settings.workdir };
    const store = patience.over(await openStore(settings.to, { onTry: outage.tried }));
    owned.push(() => store.close());
    const scope: KeyScope = { taskName: settings.identity.taskName, index: keyIndex(settings.identity) };
    const listing = await listRecords(store, scope, signal);
    if (settings.skipDone && options.attempt === undefined) {
      const done = await doneAttempt(store, listing, settings, signal);
      if (done !== undefined) {
        await close();
        return { kind: 'done-already', attempt: done };
      }
    }
    const lock = lockWorkdir(settings.workdir, settings.sharedWorkdir);
    owned.push(() => lock.close());
    process.on('SIGIO', () => undefined); // a lease that a writer meets must not end us (fcntl(2))
    if (!settings.sharedWorkdir) {
      for (const one of await settleReclaims(root)) log.warn(describeSettled(one));
      await clearStaging(root);
    }
    const from =
      settings.from === undefined
        ? store
        : patience.over(await openStore(settings.from, { onTry: outage.tried }));
    if (from !== store) owned.push(() => from.close());
    const manifest = compileManifest(settings.manifest, storeInside(settings));
    if (options.attempt === undefined)
      await refuseMissingInputs({ settings, scope, manifest, store, from, signal });
    const paths = new Paths();
    const resumed = options.attempt === undefined ? undefined : readAttemptFile(settings, options.attempt);
    const { facts, history, ledger, fence, tidy, ended } = await openAttempt(
      { ...options, signal },
      store,
      scope,
      resumed,
      paths,
    );
    // Of earlier attempts, or of the dead sidecar that this one replaces.
    if (facts.attempt > 1 || resumed !== undefined) await sweepOwn(store, settings, scope, signal);
    const progress = openProgress(log.draw);
    const restored: Restored =
      resumed === undefined
        ? await restore({
            settings,
            scope,
            manifest,
            root,
            store,
            from,
            history,
            log,
            signal,
            progress,
          })
        : restoredBefore(resumed.alone?.restored, ledger.generations);
    ledger.setGenerations(judged(ledger.generations, restored.judgements));
    if (restored.generation !== undefined) ledger.restored = generationName(restored.generation);
    const workers = openSnapshotLanes(settings, root, log);
    owned.push(() => workers.close());
    const reclaimer =
      settings.reclaim === 'never' || settings.sharedWorkdir ? undefined : openReclaimer(root);
    owned.push(() => reclaimer?.close());
    const baselines = new Baselines(ledger);
    for (const [path, baseline] of resumed?.baselines ?? [])
      if (!ledger.results.has(path)) baselines.set(path, baseline);
    const inherited = new PackedMap(fingerprintRow, paths);
    for (const [path, fingerprint] of resumed?.inherited ?? []) inherited.set(path, fingerprint);
    const context: Context = {
      settings,
      scope,
      manifest,
      store,
      root,
      log,
      history,
      ledger,
      fence,
      tidy,
      workers,
      reclaimer,
      signal: options.signal,
      attempt: facts.attempt,
      runToken: facts.runToken,
      startedAt: facts.startedAt,
      baselines,
      inherited,
      lacking: resumed?.lacking ?? restored.lacking,
      paths,
      resumed: resumed === undefined ? undefined : resumed.alone?.restored ? 'handed-over' : 'replaced',
      alone: options.alone === true ? leaveFor(settings) : undefined,
      progress,
      outage,
      spoolFull: openSpoolFull(log, settings),
      now: clockMs,
      newId: randomUUID,
    };
    return { kind: 'begun', context, restored, ended, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A store inside the work directory is never watched. */
function storeInside({ to, workdir }: Settings): readonly string[] {
  const directory = storeDirectory(to.url);
  if (directory === undefined) return [];
  const relative = posix.relative(workdir, directory);
  return relative === '' || relative.startsWith('..') ? [] : [relative];
}

/** Removes the uploads that earlier attempts of this very index left half-done. */
async function sweepOwn(
  store: Store,
  settings: Settings,
  scope: KeyScope,
  signal: AbortSignal,
): Promise<void> {
  const result = new RegExp(`\\.${scope.index}(\\.partial-\\d+|\\.~\\d+~)?(\\.zst)?$`);
  const checkpoint = `.${scope.taskName}.${scope.index}.`;
  const record = recordPrefix(scope);
  const mine = (key: string): boolean =>
    result.test(key) || key.includes(checkpoint) || key.startsWith(record);
  const prefixes = [
    ...settings.manifest.results,
    ...settings.manifest.checkpoints,
    ...settings.manifest.companions,
  ].map((pattern) => escapePath(fixedPart(pattern).replace(/\/$/, '')));
  // oxlint-disable-next-line no-await-in-loop -- few, and one at a time is kinder to the store
  for (const prefix of new Set([...prefixes, record])) await store.sweep(prefix, mine, signal);
}
