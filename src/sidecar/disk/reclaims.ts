// When local copies are deleted: the policy of `--reclaim`. The deletion itself, with its proofs, is
// reclaim/reclaim.ts.
import pLimit from 'p-limit';
import { reasonOf } from '../../model/errors.ts';
import { sameFingerprint } from '../../model/file/file-state.ts';
import { keptKey } from '../../model/format/keys.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { forEachAtOnce } from '../../model/waiting.ts';
import { heldPath } from '../../native/beneath.ts';
import { fileSystemType, networkFileSystem } from '../../native/network-files.ts';
import { type Pressure, pressureOn } from '../../reclaim/pressure.ts';
import { FencedError } from '../../records/fence.ts';
import { isLost } from '../../store/contract/store.ts';
import { sendFile } from '../../upload/send.ts';
import { type Amount, isClosedOnce } from '../queue/local-copies.ts';
import { isOverwritten, mayBeOverwritten } from '../queue/overwritten.ts';
import type { Reclaimable, Results } from '../queue/results.ts';
import type { Context } from '../run/context.ts';
import { statMember } from '../run/local-file.ts';

/** Each one waits 100 ms and takes some KiB: so 10,000 are deleted in a second, and 100,000 take no more memory. */
const MOST_AT_ONCE = 1000;

export class Reclaims {
  readonly #context: Context;
  readonly #results: Results;
  readonly #inTurn = pLimit(1);
  reclaimed = 0;

  constructor(context: Context, results: Results) {
    this.#context = context;
    this.#results = results;
  }

  /** How short the space is, for what could go once a record names it. */
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
      // While there is enough space, what may be pushed again at the end stays until then.
      if (settings.reclaim === 'now' && !this.#isDoubtful())
        return this.#reclaimAll(only(this.#results.readyToReclaim(), isFree), false);
      if (this.#isReserved()) return;
      // Never a file that was reopened after a close: it may be needed again.
      const ready = (): Iterable<Reclaimable> => only(this.#results.readyToReclaim(isClosedOnce), isFree);
      const { files, bytes } = amountOf(ready());
      if (files > 0 && (await pressureOn(heldPath(root), bytes, files)) === 'high')
        await this.#reclaimAll(ready(), false);
    });
  }

  /** After the last record: everything that is durable and that nobody needs here. */
  atEnd(checkpoints: readonly Reclaimable[]): Promise<void> {
    return this.#inTurn(async () => {
      const { reclaimer } = this.#context;
      if (reclaimer === undefined || this.#isReserved()) return;
      await this.#context.fence.passAnew(this.#context.signal);
      await this.#reclaimAll(allOf(this.#results, checkpoints), true);
    });
  }

  /** `auto` deletes nothing if the store goes with the machine, or if other nodes see the same files. */
  #isReserved(): boolean {
    const { settings, root } = this.#context;
    if (settings.reclaim !== 'auto') return false;
    return settings.perishableStore || networkFileSystem(fileSystemType(heldPath(root))) !== undefined;
  }

  async #reclaimAll(ready: Iterable<Reclaimable>, atEnd: boolean): Promise<void> {
    await this.#context.fence.pass(this.#context.signal);
    await forEachAtOnce(ready, MOST_AT_ONCE, (one) => this.#reclaim(one, atEnd));
  }

  async #reclaim(one: Reclaimable, atEnd: boolean): Promise<void> {
    const { reclaimer, fence, log, signal, root } = this.#context;
    const { path, fingerprint } = one;
    try {
      const now = statMember(root, path);
      if (now === undefined || !sameFingerprint(now, fingerprint)) return;
      const isSure = one.isOurs && (atEnd || !this.#isDoubtful());
      if (!isSure && !(await this.#stillStored(path))) return;
      this.#results.noteReclaiming(path, true);
      const confirm = (): Promise<void> => fence.pass(signal);
      const outcome = await reclaimer?.reclaim(path, fingerprint, { atEnd, confirm }, signal);
      if (outcome === undefined) return;
      if (outcome.kind !== 'reclaimed' && outcome.kind !== 'remade')
        this.#results.noteReclaiming(path, false);
      if (outcome.kind === 'reclaimed') {
        this.reclaimed += 1;
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
   * The task made the path anew while its older file was set aside, and that file is no longer what was pushed: its
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
        baseline: baselines.get(one.path),
        spoolFirst: false,
        ifAbsent: true,
      },
      signal,
    );
    if (sent.kind === 'stored') {
      ledger.noteKept(one.path, n);
      log.warn(
        `${showPath(one.path)} was made anew while it was reclaimed: the older one is kept as ${sent.file.key}`,
      );
    }
    if (sent.kind === 'stored' || sent.kind === 'unchanged') reclaimer?.discard(aside, sent.fingerprint);
    else
      log.warn(
        `${showPath(one.path)} was made anew while it was reclaimed: the older one is now ${showPath(aside)}`,
      );
  }

  #isDoubtful(): boolean {
    return mayBeOverwritten(this.#context.history);
  }

  /** For a baseline of an earlier attempt: the object must still be the one that the record names. */
  async #stillStored(path: RelPath): Promise<boolean> {
    const file = this.#context.ledger.results.get(path);
    return file !== undefined && !(await isOverwritten(this.#context, file));
  }
}

function* only(
  ready: Iterable<Reclaimable>,
  isWanted: (one: Reclaimable) => boolean,
): Generator<Reclaimable> {
  for (const one of ready) if (isWanted(one)) yield one;
}

function amountOf(ready: Iterable<Reclaimable>): Amount {
  let files = 0;
  let bytes = 0;
  for (const { fingerprint } of ready) {
    files += 1;
    bytes += fingerprint.size;
  }
  return { files, bytes };
}

/** What may be deleted at the end of the run. */
function* allOf(results: Results, checkpoints: readonly Reclaimable[]): Generator<Reclaimable> {
  yield* results.readyToReclaim();
  yield* checkpoints;
}
