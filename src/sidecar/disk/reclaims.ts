// When local copies are deleted: the policy of `--reclaim`.
// reclaim/reclaim.ts does the deletion itself, with its proofs.
import pLimit from 'p-limit';
import { isGood } from '../../model/checkpoint/restore-order.ts';
import { reasonOf } from '../../model/errors.ts';
import { sameFingerprint } from '../../model/file/file-state.ts';
import { keptKey } from '../../model/format/keys.ts';
import type { RecordKind } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { forEachAtOnce } from '../../model/waiting.ts';
import { currentPath, heldPath, whereabouts } from '../../native/beneath.ts';
import { isInMemory } from '../../native/disk-use.ts';
import { factsBeneath } from '../../native/files.ts';
import { fileSystemType, networkFileSystem } from '../../native/network-files.ts';
import { type Pressure, pressureOn } from '../../reclaim/pressure.ts';
import { MOST_RECLAIMS } from '../../reclaim/reclaim.ts';
import { FencedError } from '../../records/claim.ts';
import { ABSENT, isLost } from '../../store/contract/store.ts';
import { sendFile } from '../../upload/send.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { Files } from '../queue/files.ts';
import { isOverwritten, mayBeOverwritten } from '../queue/overwritten.ts';
import { type Amount, isClosedOnce } from '../queue/local-copies.ts';
import type { Reclaimable, Results } from '../queue/results.ts';
import type { Context, Needs } from '../run/context.ts';

/** The stages that know which checkpoints are stored. */
interface CheckpointParts {
  readonly context: Needs<'ledger' | 'manifest' | 'root'>;
  readonly files: Pick<Files, 'get'>;
  readonly generations: Pick<Generations, 'members'>;
  readonly checkpoints: Pick<Checkpoints, 'objectOf'>;
}

export class Reclaims {
  readonly #context: Context;
  readonly #results: Results;
  readonly #inTurn = pLimit(1);
  readonly #isDoubtful: boolean;
  /** By path, our own renames whose events the watcher has not reported yet. */
  readonly #putBack = new Map<RelPath, number>();
  /** How many local files were deleted, and the first of them by name. */
  reclaimed = 0;
  firstReclaimed: RelPath | undefined;

  constructor(context: Context, results: Results) {
    this.#context = context;
    this.#results = results;
    this.#isDoubtful = mayBeOverwritten(context.history);
  }

  /**
   * Call it for each rename into place that the watcher reports. True: it may be ours, which says nothing of who has
   * closed the file. The kernel may report two renames of one name as one (inotify(7)).
   */
  hasPutBack(path: RelPath): boolean {
    const times = this.#putBack.get(path) ?? 0;
    if (times > 1) this.#putBack.set(path, times - 1);
    else this.#putBack.delete(path);
    return times > 0;
  }

  /** How short the space is, compared with what could go once a record names it. */
  async pressure(): Promise<Pressure> {
    const { settings, reclaimer, root } = this.#context;
    if (reclaimer === undefined || settings.reclaim !== 'auto' || this.#isReserved()) return 'none';
    const { files, bytes } = this.#results.copies.once;
    return files === 0 ? 'none' : pressureOn(heldPath(root), bytes, files);
  }

  /** While the task runs, after a record: `now` deletes everything that a record names, `auto` only under pressure. */
  whileRunning(): Promise<void> {
    return this.#inTurn(async () => {
      const { settings, manifest, root, reclaimer } = this.#context;
      if (reclaimer === undefined) return;
      const isFree = ({ path }: Reclaimable): boolean => !manifest.rolesOf(path).companion;
      // While there is enough space, files that may be pushed again at the end stay until then.
      if (settings.reclaim === 'now' && !this.#isDoubtful)
        return this.#reclaimAll(only(this.#results.readyToReclaim(), isFree), false);
      if (this.#isReserved()) return;
      // Never a file that was reopened after a close: it may be needed again.
      const ready = (): AsyncIterable<Reclaimable> =>
        only(this.#results.readyToReclaim(isClosedOnce), isFree);
      const isShort = async ({ files, bytes }: Amount): Promise<boolean> =>
        files > 0 && (await pressureOn(heldPath(root), bytes, files)) === 'high';
      // Results that no record names yet count, too: so usually no file is looked at.
      if ((await isShort(this.#results.copies.once)) && (await isShort(await amountOf(ready()))))
        await this.#reclaimAll(ready(), false);
    });
  }

  /** After the last record: reclaims everything that is durable and not needed here. `end`: the record's kind. */
  async atEnd(checkpoints: CheckpointParts, end: RecordKind): Promise<void> {
    if (!isInPlace(this.#context)) return;
    await this.#inTurn(async () => {
      const { reclaimer } = this.#context;
      if (reclaimer === undefined || this.#isReserved()) return;
      if (end === 'failed' && this.#isUsersDisk()) return;
      const ready = (): AsyncIterable<Reclaimable> => allOf(this.#results, checkpointsToReclaim(checkpoints));
      if (await isEmpty(ready())) return;
      await this.#context.fence.passAnew(this.#context.signal);
      await this.#reclaimAll(ready(), true);
    });
  }

  /** `auto` deletes nothing if the store disappears with the machine, or if other nodes see the same files. */
  #isReserved(): boolean {
    const { settings, root } = this.#context;
    if (settings.reclaim !== 'auto') return false;
    return settings.perishableStore || networkFileSystem(fileSystemType(heldPath(root))) !== undefined;
  }

  /** After a failure or Ctrl-C the user wants to look: `auto` leaves what takes no memory and is not capture's own. */
  #isUsersDisk(): boolean {
    const { settings, root } = this.#context;
    return settings.reclaim === 'auto' && settings.madeWorkdir !== true && !isInMemory(heldPath(root));
  }

  async #reclaimAll(ready: AsyncIterable<Reclaimable>, atEnd: boolean): Promise<void> {
    await this.#context.fence.pass(this.#context.signal);
    // More would only wait for the reclaimer, and use memory.
    await forEachAtOnce(ready, MOST_RECLAIMS, (one) => this.#reclaim(one, atEnd));
  }

  async #reclaim(one: Reclaimable, atEnd: boolean): Promise<void> {
    const { reclaimer, fence, log, signal, root } = this.#context;
    const { path, fingerprint } = one;
    try {
      const now = factsBeneath(root, path);
      if (now === undefined || !sameFingerprint(now, fingerprint)) return;
      const isSure = one.isOurs && (atEnd || !this.#isDoubtful);
      if (!isSure && !(await this.#stillStored(path))) return;
      this.#results.noteReclaiming(path, true);
      const confirm = (): Promise<void> => fence.pass(signal);
      const onPutBack = (): void => void this.#putBack.set(path, (this.#putBack.get(path) ?? 0) + 1);
      const outcome = await reclaimer?.reclaim(path, fingerprint, { atEnd, confirm, onPutBack }, signal);
      if (outcome === undefined) return;
      if (outcome.kind !== 'reclaimed' && outcome.kind !== 'remade')
        this.#results.noteReclaiming(path, false);
      if (outcome.kind === 'reclaimed') {
        this.reclaimed += 1;
        if (this.firstReclaimed === undefined || path < this.firstReclaimed) this.firstReclaimed = path;
        this.#results.noteReclaimed(path);
      } else if (outcome.kind === 'remade') {
        await this.#keepRemade(one, outcome.aside);
      } else {
        log.debug(`${showPath(path)} stays in the work directory: ${outcome.kind}`);
      }
    } catch (error) {
      // Then none may be deleted, and one message is enough.
      if (isLost(error) || error instanceof FencedError) {
        this.#results.noteReclaiming(path, false);
        throw error;
      }
      if (!signal.aborted) log.warn(`${showPath(path)} could not be reclaimed: ${reasonOf(error)}`);
    }
  }

  /**
   * The task created the path again while its older file was set aside, and that file is no longer what was pushed: its
   * bytes get a name of their own before it is deleted.
   */
  async #keepRemade(one: Reclaimable, aside: RelPath): Promise<void> {
    const { ledger, scope, log, signal, reclaimer, baselines } = this.#context;
    const n = ledger.keptOf(one.path) + 1;
    this.#results.noteReclaimed(one.path);
    const sent = await sendFile(
      this.#context.sender,
      {
        path: aside,
        keyOf: (compressed) => keptKey(one.path, scope, n, compressed),
        baseline: baselines.get(one.path, true),
        spoolFirst: false,
        precondition: ABSENT,
      },
      signal,
    );
    if (sent.kind === 'stored') {
      ledger.noteKept(one.path, n);
      log.warn(
        `${showPath(one.path)} was created again while it was reclaimed: the older one is kept as ${sent.file.key}`,
      );
    }
    if (sent.kind === 'stored' || sent.kind === 'unchanged') reclaimer?.discard(aside, sent.fingerprint);
    else
      log.warn(
        `${showPath(one.path)} was created again while it was reclaimed: the older one is now ${showPath(aside)}`,
      );
  }

  /** For a baseline of an earlier attempt: its object must still be the one in the record. */
  async #stillStored(path: RelPath): Promise<boolean> {
    const file = this.#context.ledger.results.get(path);
    return file !== undefined && !(await isOverwritten(this.#context, file));
  }
}

async function* only(
  ready: AsyncIterable<Reclaimable>,
  isWanted: (one: Reclaimable) => boolean,
): AsyncGenerator<Reclaimable> {
  for await (const one of ready) if (isWanted(one)) yield one;
}

async function amountOf(ready: AsyncIterable<Reclaimable>): Promise<Amount> {
  let files = 0;
  let bytes = 0;
  for await (const { fingerprint } of ready) {
    files += 1;
    bytes += fingerprint.size;
  }
  return { files, bytes };
}

async function isEmpty(all: AsyncIterable<unknown>): Promise<boolean> {
  for await (const _ of all) return false;
  return true;
}

async function* allOf(results: Results, checkpoints: readonly Reclaimable[]): AsyncGenerator<Reclaimable> {
  yield* results.readyToReclaim();
  yield* checkpoints;
}

/**
 * Checkpoints that may be deleted at the end of the run, beside stored results: those that a good generation holds in
 * exactly their present state, and that are not needed here.
 */
function checkpointsToReclaim({
  context,
  files,
  generations,
  checkpoints,
}: CheckpointParts): readonly Reclaimable[] {
  const good = context.ledger.generations.filter(isGood);
  const named = new Set(good.flatMap(({ members }) => members.map(({ key }) => key)));
  return generations.members().flatMap((path) => {
    const facts = factsBeneath(context.root, path);
    const object = facts === undefined ? undefined : checkpoints.objectOf(path, facts);
    if (facts === undefined || object === undefined || !named.has(object.key)) return [];
    // If it was restored and not touched since, or is an input, it stays.
    const closes = files.get(path, 'checkpoint')?.closes ?? 0;
    const roles = context.manifest.rolesOf(path);
    if (closes === 0 || roles.input) return [];
    const result = files.get(path, 'result')?.durable?.fingerprint;
    if (roles.result && (result === undefined || !sameFingerprint(result, facts))) return [];
    return [{ path, fingerprint: facts, isOurs: true }];
  });
}

/** False, with a warning, if the work directory is not at its path any more. */
function isInPlace({ root, log }: Needs<'root' | 'log'>): boolean {
  switch (whereabouts(root)) {
    case 'here':
      return true;
    case 'moved':
      log.warn(
        `the task has moved its work directory to ${showPath(currentPath(root.fd))}: local files stay there`,
      );
      return false;
    case 'removed':
      log.warn('the task has removed its work directory: what was stored before stays stored');
      return false;
    case 'unreachable':
      log.warn('the work directory cannot be looked at: local files stay in it');
      return false;
    case 'covered':
      log.warn('a file system is mounted over the work directory: local files stay below it');
      return false;
  }
}
