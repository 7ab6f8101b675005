// One gathering: takes the shares of the indices as they arrive, checks which files exist, downloads the rest, and
// counts what is missing at the end.
import fs from 'node:fs';
import pLimit from 'p-limit';
import type { GatherFields } from '../../model/format/message-fields.ts';
import { encodePath, showPath } from '../../model/path.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { forEachAtOnce, linkSignals } from '../../model/waiting.ts';
import { decompressStream } from '../../restore/decompress.ts';
import { RANGE_BYTES } from '../../restore/object-stream.ts';
import { noIdentity } from '../../seal/sealed-store.ts';
import type { Log } from '../../log/log.ts';
import type { Store } from '../../store/contract/store.ts';
import type { Tools } from '../../cli/command.ts';
import type { StoredArray } from '../stored-array.ts';
import { Arrivals } from './arrivals.ts';
import { type Arrived, Destination, DIFFERS } from './destination.ts';
import { indicesDone, openProgress } from '../progress.ts';
import type { Share, StoredSource } from './share.ts';

/**
 * Both the number of ranges of a large file that are requested concurrently, and the number of such files. Each range
 * takes 8 MiB of memory.
 */
const RANGES_AT_ONCE = 6;
const LARGE_AT_ONCE = 2;
/** Lines of one kind that are logged; the rest is counted. */
const MOST_LINES = 20;

export interface How {
  readonly directory: string;
  readonly checksum: boolean;
  readonly parallel: number;
  readonly dryRun: boolean;
}

interface Wanted {
  readonly index: string;
  readonly source: StoredSource;
}

interface DownloadJob {
  readonly store: Store;
  readonly how: How;
  /** Aborts everything that is under way. */
  readonly stop: AbortController;
  readonly signal: AbortSignal;
}

export class Gathering {
  readonly #tools: Tools;
  readonly #indices: number;
  readonly #left: CappedLines;
  readonly #missing: CappedLines;
  #indicesDone = 0;
  #present = 0;
  #downloaded = 0;
  #bytes = 0;

  /** `indices` is the number of shares that will arrive. */
  constructor(indices: number, tools: Tools) {
    this.#indices = indices;
    this.#tools = tools;
    this.#left = new CappedLines(tools.log);
    this.#missing = new CappedLines(tools.log);
  }

  /** All files of the shares that have arrived are there. */
  get isComplete(): boolean {
    return this.#missing.count === 0;
  }

  /** Passes the shares on, and reports what each of them lacks. */
  async *told(shares: AsyncIterable<Share>): AsyncGenerator<Share> {
    for await (const share of shares) {
      for (const problem of share.problems)
        this.#missing.warn(`index ${share.index}: ${problem}`, share.index);
      this.#tellLeft(share);
      yield share;
      this.#indicesDone += 1;
    }
    this.#left.close('indices leave something, too');
  }

  /** Downloads into the directory, or, for a dry run, reports what would be downloaded. */
  async into(shares: AsyncIterable<Share>, { store }: StoredArray, how: How): Promise<void> {
    const { log, signal } = this.#tools;
    const progress = openProgress(log, (elapsedMs) => this.#line(elapsedMs));
    const stop = new AbortController();
    const either = linkSignals(signal, stop.signal);
    try {
      if (how.dryRun) await this.#look(shares, how, either.signal);
      else await this.#bring(shares, { store, how, stop, signal: either.signal });
    } finally {
      either.unlink();
      progress.close();
    }
    this.#missing.close('more are missing');
    this.#summarize(how);
  }

  async #look(shares: AsyncIterable<Share>, how: How, signal: AbortSignal): Promise<void> {
    // A dry run creates nothing.
    const isThere = fs.existsSync(encodePath(how.directory));
    const destination = isThere ? new Destination(how.directory, { dryRun: true }) : undefined;
    try {
      await forEachAtOnce(this.#files(shares), how.parallel, async (one) => {
        if (await this.#isAbsent(destination, one, how, signal)) this.#got(one);
      });
    } finally {
      await destination?.close(true);
    }
  }

  async #bring(shares: AsyncIterable<Share>, { store, how, stop, signal }: DownloadJob): Promise<void> {
    const destination = new Destination(how.directory, { dryRun: false });
    const arrivals = new Arrivals(destination, (one, why) =>
      why === undefined ? this.#got(one) : this.#lacks(one, why),
    );
    const large = pLimit(LARGE_AT_ONCE);
    const options = { signal, parallel: RANGES_AT_ONCE, decompress: decompressStream };
    const bringOne = async (one: Wanted): Promise<void> => {
      if (!(await this.#isAbsent(destination, one, how, signal))) return;
      const fetch = (): Promise<Arrived | string> => destination.fetch(store, one.source, options);
      const fetched = await (one.source.size > RANGE_BYTES ? large(fetch) : fetch());
      if (typeof fetched === 'string') this.#lacks(one, fetched);
      else await arrivals.add({ ...one, ...fetched }, signal);
    };
    let isDone = false;
    try {
      await forEachAtOnce(this.#files(shares), how.parallel, (one) =>
        bringOne(one).catch((error: unknown) => {
          stop.abort(error);
          throw error;
        }),
      );
      await arrivals.finish(signal);
      isDone = true;
    } catch (error) {
      // Complete downloads are not thrown away. Their errors were reported.
      await arrivals.place(signal).catch(() => undefined);
      throw error;
    } finally {
      await destination.close(isDone);
    }
  }

  /** Counts an existing file, or reports that it differs. */
  async #isAbsent(
    destination: Destination | undefined,
    one: Wanted,
    { checksum }: How,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (one.source.secret !== undefined) throw noIdentity(one.source.key);
    const local = (await destination?.look(one.source, checksum, signal)) ?? 'absent';
    if (local === 'whole') this.#present += 1;
    else if (local === 'differs') this.#lacks(one, DIFFERS);
    return local === 'absent';
  }

  async *#files(shares: AsyncIterable<Share>): AsyncGenerator<Wanted> {
    for await (const { index, files } of this.told(shares)) {
      const names = new Set<string>();
      for (const source of files) {
        if (names.has(source.path))
          this.#lacks({ index, source }, 'another result of this index has that name');
        else yield { index, source };
        names.add(source.path);
      }
    }
  }

  #got({ source }: Wanted): void {
    this.#downloaded += 1;
    this.#bytes += source.size;
  }

  #lacks({ index, source: { path, key } }: Wanted, why: string): void {
    this.#missing.warn(`${showPath(path)} of index ${index}: ${why}`, index, key);
  }

  #tellLeft({ index, partials, older }: Share): void {
    const parts = [
      ...(partials === 0 ? [] : [`${partials} staged (--with-partials)`]),
      ...(older === 0 ? [] : [`${older} older ${older === 1 ? 'copy' : 'copies'} of replaced results`]),
    ];
    if (parts.length > 0) this.#left.info(`index ${index} leaves in the store: ${parts.join(', ')}`, index);
  }

  /**
   * `[##########          ] 5,120 of 10,000 indices, 25,310 files, 12.3 GiB, 85.0 MiB/s, 5 min left`. The totals of
   * files and bytes are unknown until the records of all indices are read.
   */
  #line(elapsedMs: number): string {
    const files = this.#present + this.#downloaded;
    const { bar, left } = indicesDone({ done: this.#indicesDone, of: this.#indices }, elapsedMs);
    return [
      bar,
      plural(files, 'file'),
      formatBytes(this.#bytes),
      `${formatBytes(Math.round((this.#bytes / Math.max(1, elapsedMs)) * 1000))}/s`,
      ...left,
    ].join(', ');
  }

  #summarize({ directory, dryRun }: How): void {
    const got = `${plural(this.#downloaded, 'file')} (${formatBytes(this.#bytes)})`;
    const present = this.#present === 0 ? '' : `; ${plural(this.#present, 'file')} there already`;
    const missing = this.#missing.count === 0 ? '' : `; ${this.#missing.count} missing`;
    const what = dryRun ? `would gather ${got} into` : `gathered ${got} into`;
    const fields: GatherFields = {
      files: this.#downloaded,
      bytes: this.#bytes,
      present: this.#present,
      missing: this.#missing.count,
    };
    this.#tools.log.info(`${what} ${directory}${present}${missing}`, { event: 'summary', ...fields });
  }
}

/** Messages of one kind: the first few are logged, the others counted. */
class CappedLines {
  readonly #log: Log;
  #count = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  get count(): number {
    return this.#count;
  }

  info(line: string, index: string): void {
    this.#count += 1;
    if (this.#count <= MOST_LINES) this.#log.info(line, { event: 'kept', index });
  }

  warn(line: string, index: string, key?: string): void {
    this.#count += 1;
    if (this.#count <= MOST_LINES) this.#log.warn(line, { event: 'damaged', index, key });
  }

  /** `what` is the text after the number of messages that were not logged. */
  close(what: string): void {
    if (this.#count > MOST_LINES) this.#log.warn(`${this.#count - MOST_LINES} ${what}`);
  }
}
