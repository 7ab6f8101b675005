// Partial results: if a death may have left a result half-written, it is stored as
// `<path>.<index>.partial-<attempt>`, beside the good ones and never over them, and stays in the work directory.
import type { FileEvent } from '../../model/file/decide.ts';
import type { FileState } from '../../model/file/file-state.ts';
import { partialKey } from '../../model/format/keys.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { sendFile } from '../../upload/send.ts';
import type { Needs } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';
import { endedPush, type PushHandle } from './pusher.ts';

/** What it takes of the run. */
type Uses = Needs<
  | 'root'
  | 'scope'
  | 'store'
  | 'log'
  | 'attempt'
  | 'runToken'
  | 'ledger'
  | 'fence'
  | 'sender'
  | 'baselines'
  | 'now'
>;

/** Why a result may be half-written, for the user; and what to do about it. */
export interface Doubt {
  readonly why: string;
  readonly hint?: string | undefined;
}

/** Pushes the file as it is under its partial key. */
export async function pushPartial(
  context: Uses,
  fileState: FileState,
  how: PushHandle,
  { why, hint }: Doubt,
): Promise<FileEvent> {
  const { attempt, scope, ledger, log, now } = context;
  const { path } = fileState;
  const startedMs = now();
  // If it is empty, there is nothing to keep.
  const facts = statMember(context.root, path);
  if (facts?.size === 0) return { kind: 'unchanged', durable: { fingerprint: facts, md5: '', size: 0 } };
  const n = await freeNumber(context, path, how.signal);
  const sent = await sendFile(
    context.sender,
    {
      path,
      keyOf: (compressed) => partialKey(path, scope, { attempt, n }, compressed),
      baseline: context.baselines.get(path),
      spoolFirst: how.spoolFirst,
      onSent: how.onSent,
      ifAbsent: false,
    },
    how.signal,
  );
  if (sent.kind === 'exists') throw new Error(`unexpected outcome for ${path}: exists`);
  if (sent.kind === 'stored') {
    ledger.notePartial({ ...sent.file, suspect: true }, false);
    const { key, size: bytes } = sent.file;
    const told = { event: 'half-written', path, key, bytes, hint } as const;
    log.warn(`${showPath(path)} may be half-written, as ${why}: stored as ${key}`, told);
  }
  return endedPush(sent, startedMs, now());
}

/** Moves a result that was published before the death was known to its partial key. */
export async function moveToPartial(
  context: Uses,
  path: RelPath,
  { why, hint }: Doubt,
  signal: AbortSignal,
): Promise<void> {
  const { ledger, store, scope, attempt, fence, log } = context;
  const file = ledger.results.get(path);
  if (file === undefined || file.attempt !== attempt) return;
  await fence.passAnew(signal);
  const n = await freeNumber(context, path, signal);
  const key = partialKey(path, scope, { attempt, n }, file.compressed);
  await store.copy(file.key, key, signal);
  await store.delete([file.key], signal);
  ledger.notePartial({ ...file, key, suspect: true }, true);
  const told = { event: 'half-written', path, key, bytes: file.size, hint } as const;
  log.warn(`${showPath(path)} may be half-written, as ${why}: moved to ${key}`, told);
}

/** The first number whose key is free, or already ours: the attempts of other tasks have the same numbers. */
async function freeNumber(
  { store, scope, attempt, runToken }: Uses,
  path: RelPath,
  signal: AbortSignal,
): Promise<number> {
  for (let n = 0; ; n += 1) {
    const heads = [true, false].map((compressed) =>
      store.head(partialKey(path, scope, { attempt, n }, compressed), signal),
    );
    const there = await Promise.all(heads);
    if (there.every((head) => head === undefined || head.meta['run'] === runToken)) return n;
  }
}
