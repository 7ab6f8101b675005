// The work directories that killed runs with `--workdir auto` have left on this machine. While the task of this run
// works, each of them is compared with the records of its index: if every declared file is stored, it is removed;
// otherwise it is set aside for the user. It removes nothing that is not in the store, proven by path, md5 and object.
import fs from 'node:fs';
import path from 'node:path';
import { unionOf } from '../../model/checkpoint/history.ts';
import { errnoOf } from '../../model/errors.ts';
import { compileManifest, OWN_DIR } from '../../model/file/manifest.ts';
import type { Companion, Generation, StoredFile } from '../../model/format/records.ts';
import type { RelPath } from '../../model/path.ts';
import { untilAborted } from '../../model/waiting.ts';
import type { WorkDir } from '../../native/beneath.ts';
import { isEmptyDirectory } from '../../native/directory-entries.ts';
import { factsOf, openBeneath } from '../../native/files.ts';
import { holdPrivateDir } from '../../native/private-dir.ts';
import { listRecords } from '../../records/list.ts';
import { readNewest } from '../../records/read.ts';
import { md5OfFile } from '../../restore/local.ts';
import type { UnsavedFate } from '../../scratch/left-work.ts';
import { removeAbandoned } from '../../scratch/abandoned.ts';
import { findAll } from '../../watch/scan.ts';
import { storedNow } from '../queue/overwritten.ts';
import { readLastAttemptFile } from '../run/attempt-file.ts';
import type { Needs } from '../run/context.ts';

/** One run reads at most so much of what others have left: one to two minutes of one core, in a niced process. */
const MOST_BYTES = 32 * 2 ** 30;
/** When the task has ended, and nobody is about to kill us, the run waits this long for what is under way. */
const WAIT_MS = 5000;

export class KilledRuns {
  readonly #context: Needs<'settings' | 'store' | 'log'>;
  readonly #stop = new AbortController();
  #swept: Promise<void> | undefined;
  #leftBytes = MOST_BYTES;

  constructor(context: Needs<'settings' | 'store' | 'log'>) {
    this.#context = context;
  }

  /** The task runs: nothing of its start waits for this any more. */
  begin(): void {
    const { settings, log } = this.#context;
    const base = path.dirname(path.dirname(settings.workdir));
    this.#swept ??= removeAbandoned(base, log, (inside, name) => this.#fateOf(inside, name)).catch(
      () => undefined, // the directory cannot be listed: nothing is swept
    );
  }

  /** Settles when nothing is under way any more. Never rejects. */
  get swept(): Promise<void> {
    return this.#swept ?? Promise.resolve();
  }

  /** What is not done by then is for the next run. `isHurried`: we are about to be killed. */
  async end(isHurried: boolean): Promise<void> {
    const timer = setTimeout(() => this.#stop.abort(new Error('the run has ended')), isHurried ? 0 : WAIT_MS);
    await untilAborted(this.swept, this.#stop.signal).catch(() => undefined);
    clearTimeout(timer);
    this.#stop.abort(new Error('the run has ended'));
  }

  async #fateOf(inside: string, name: string): Promise<UnsavedFate> {
    const isStored = await this.#isStored(inside, name).catch(() => false);
    if (this.#stop.signal.aborted) return 'later';
    return isStored ? 'stored' : 'aside';
  }

  async #isStored(inside: string, name: string): Promise<boolean> {
    const { settings, store } = this.#context;
    const { signal } = this.#stop;
    const left = readLastAttemptFile({ ...settings, workdir: inside });
    // capture puts files of the task there, too.
    if (left?.manifest === undefined || !isEmpty(`${inside}/${OWN_DIR}/aside`)) return false;
    if (!isEmpty(`${inside}/${OWN_DIR}/reclaim`)) return false;
    const index = /^\d+/.exec(name)?.[0] ?? '0';
    const listing = await listRecords(store, { taskName: settings.identity.taskName, index }, signal);
    const { records } = await readNewest(store, listing, { signal });
    // The token is that attempt's alone: without its record, it had another store, task name or index.
    const own = records.find(({ record }) => record.runToken === left.runToken)?.record;
    if (own === undefined) return false;
    const { results, generations } = unionOf(records, own.runId);
    const held = holdPrivateDir(inside);
    const root = { fd: held.fd, path: inside };
    try {
      const manifest = compileManifest({ ...left.manifest, newest: undefined });
      let isAllSeen = true;
      const onUnreadable = (): void => void (isAllSeen = false);
      // A link to a directory, too: the walk does not follow it, and declared files may be behind it.
      const interest = {
        wants: (file: RelPath) => manifest.wants(file) || manifest.canHold(file),
        canHold: (dir: RelPath) => manifest.canHold(dir),
      };
      const found = await findAll({ root, interest, onUnreadable }, 'pool', signal);
      for (const file of found) {
        if (file.link && manifest.canHold(file.path)) return false;
        const { result, checkpoint, companion } = manifest.rolesOf(file.path);
        if (!result && !checkpoint && !companion) continue; // an input
        const stored = storedUnder(file.path, results.get(file.path), generations);
        // oxlint-disable-next-line no-await-in-loop -- one core hashes one file after the other
        if (file.link || !(await this.#isSame(root, file.path, stored))) return false;
      }
      return isAllSeen;
    } finally {
      held.close();
    }
  }

  /** Whether the store holds the bytes of the file at this path, now. */
  async #isSame(root: WorkDir, file: RelPath, stored: Stored): Promise<boolean> {
    const { store } = this.#context;
    const { signal } = this.#stop;
    const fd = openBeneath(root, file);
    try {
      const { size } = factsOf(fd);
      const ofSize = stored.files.filter((one) => one.kind === 'file' && one.size === size);
      const appended = stored.companions.filter((one) => one.size === size);
      if (ofSize.length + appended.length === 0) return false;
      this.#leftBytes -= size * (Math.min(ofSize.length, 1) + appended.length);
      if (this.#leftBytes < 0) return false;
      const md5 = ofSize.length === 0 ? undefined : await md5OfFile(fd, signal);
      for (const one of ofSize)
        // oxlint-disable-next-line no-await-in-loop -- the first that is there ends it
        if (one.md5 === md5 && (await storedNow(store, one, signal)) === one) return true;
      for (const one of appended)
        // oxlint-disable-next-line no-await-in-loop -- the first that is there ends it
        if (await this.#isAppended(fd, one)) return true;
      return false;
    } finally {
      fs.closeSync(fd);
    }
  }

  async #isAppended(fd: number, { size, segments }: Companion): Promise<boolean> {
    const { store } = this.#context;
    const { signal } = this.#stop;
    let at = 0;
    for (const { first, size: length, md5, key, push } of segments) {
      if (first !== at) return false;
      at += length;
      // oxlint-disable-next-line no-await-in-loop -- the first that differs ends it
      if ((await md5OfFile(fd, signal, { first, end: at })) !== md5) return false;
      // oxlint-disable-next-line no-await-in-loop -- the first that is gone ends it
      if ((await store.head(key, signal))?.meta['push'] !== push) return false;
    }
    return at === size;
  }
}

/** What the records name for a path. */
interface Stored {
  readonly files: readonly StoredFile[];
  readonly companions: readonly Companion[];
}

function storedUnder(
  file: RelPath,
  result: StoredFile | undefined,
  generations: readonly Generation[],
): Stored {
  const isOf = (one: { readonly path: RelPath }): boolean => one.path === file;
  const members = generations.flatMap((one) => one.members.filter(isOf));
  return {
    files: result === undefined ? members : [result, ...members],
    companions: generations.flatMap((one) => one.companions.filter(isOf)),
  };
}

function isEmpty(dir: string): boolean {
  try {
    return isEmptyDirectory(dir);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
    return true;
  }
}
