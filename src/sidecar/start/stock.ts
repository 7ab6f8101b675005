// What stands in the work directory when the watch begins: before the task it is inherited; for a restarted
// sidecar it is what the task may have closed meanwhile.
import { resultKey } from '../../core/keys.ts';
import type { RelPath } from '../../core/path.ts';
import { plural } from '../../core/units.ts';
import type { Watcher } from '../../watch/watcher.ts';
import { readLastAttemptFile, writeAttemptFile } from './attempt-file.ts';
import type { Context } from '../context.ts';
import type { Files } from '../files/files.ts';
import { mayBeOverwritten } from '../files/overwritten.ts';

/** `listen` is called at the moment from which closes are the task's. */
export async function takeStock(
  context: Context,
  files: Files,
  watcher: Watcher,
  listen: () => void,
): Promise<void> {
  if (context.resumed) {
    inherit(context, files);
    // The task is running: listen first, so that what the scan comes too early for is told.
    listen();
    const found = await watcher.scan(context.signal);
    for (const { path, facts } of found) files.closed(path, 'scan', context.now(), facts);
    context.log.info(`the sidecar was restarted: ${plural(found.length, 'declared file')} looked at again`);
    return;
  }
  for (const { path, facts } of await watcher.scan(context.signal)) context.inherited.set(path, facts);
  await hashStagedInputs(context);
  writeAttemptFile(context.root.path, context);
  inherit(context, files);
  listen();
}

function inherit({ inherited }: Context, files: Files): void {
  for (const [path, fingerprint] of inherited) files.inherit(path, fingerprint);
}

/**
 * A result that is an input and comes out unchanged is not pushed: its md5 is taken while it is the input. What
 * the task of a dead attempt made of it here is no input: it may be stored nowhere.
 */
async function hashStagedInputs(context: Context): Promise<void> {
  const { inherited, manifest, lanes, baselines, root, signal } = context;
  const before = readLastAttemptFile(root.path);
  for (const path of inherited.keys()) {
    const roles = manifest.rolesOf(path);
    if (!roles.input || !roles.result) continue;
    const digest = await lanes.md5(path, signal);
    if (digest.kind !== 'md5') continue;
    if (before !== undefined && before.baselines.get(path)?.md5 !== digest.md5) continue;
    if (await isUnrecorded(context, path)) continue;
    baselines.set(path, { md5: digest.md5, size: digest.facts.size });
  }
}

/** An earlier attempt stored it and died before a record named it: it came as an input, and is pushed as ours. */
async function isUnrecorded(context: Context, path: RelPath): Promise<boolean> {
  const { history, ledger, store, scope, signal } = context;
  if (ledger.results.has(path) || !mayBeOverwritten(history)) return false;
  const heads = [true, false].map((compressed) => store.head(resultKey(path, scope, compressed), signal));
  return (await Promise.all(heads)).some((head) => head !== undefined);
}
