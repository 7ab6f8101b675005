// One gathering at work: takes the shares of the indices as they come, looks what is there already, downloads the rest,
// and counts what is missing in the end.
import fs from 'node:fs';
import pLimit from 'p-limit';
import { encodePath, showPath } from '../../model/path.ts';
import { formatBytes, plural } from '../../model/units.ts';
import { forEachAtOnce, linkSignals } from '../../model/waiting.ts';
import { decompressStream } from '../../restore/decompress.ts';
import { RANGE_BYTES } from '../../restore/object-stream.ts';
import type { Log } from '../../log/log.ts';
import type { Tools } from '../command.ts';
import type { Place } from '../place.ts';
import { Destination, DIFFERS } from './destination.ts';
import { openProgress } from '../progress.ts';
import { gatherLine } from './progress.ts';
import type { Share, StoredSource } from './share.ts';

/** Of a large file so many ranges are asked for at once, of so many large files: each range is 8 MiB of memory. */
const RANGES_AT_ONCE = 6;
const LARGE_AT_ONCE = 2;
/** So many lines of one kind: the rest is counted. */
const MOST_LINES = 20;

export interface How {
  readonly directory: string;
  readonly checksum: boolean;
  readonly parallel: number;
  readonly dryRun: boolean;
}

export class Gathering {
  readonly #tools: Tools;
  readonly #indices: number;
  readonly #left: Lines;
  readonly #missing: Lines;
  #indicesDone = 0;
  #present = 0;
  #downloaded = 0;
  #bytes = 0;

  /** `indices`: how many shares will come. */
  constructor(indices: number, tools: Tools) {
    this.#indices = indices;
    this.#tools = tools;
    this.#left = new Lines(tools.log);
    this.#missing = new Lines(tools.log);
  }

  /** All that the shares have is there, as far as it has come. */
  get isComplete(): boolean {
    return this.#missing.count === 0;
  }

  /** The same shares; what stays behind of each is told. */
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

  /** Gathers into the directory, or says what that would mean. */
  async into(shares: AsyncIterable<Share>, { store }: Place, how: How): Promise<void> {
    const { log, signal } = this.#tools;
    // Looks only: nothing is made.
    const isNew = how.dryRun && !fs.existsSync(encodePath(how.directory));
    const destination = isNew ? undefined : new Destination(how.directory);
    const stop = new AbortController();
    const either = linkSignals(signal, stop.signal);
    const progress = openProgress(log, (elapsedMs) =>
      gatherLine(
        {
          indices: this.#indices,
          indicesDone: this.#indicesDone,
          files: this.#present + this.#downloaded,
          bytes: this.#bytes,
        },
        elapsedMs,
      ),
    );
    const large = pLimit(LARGE_AT_ONCE);
    const options = { signal: either.signal, parallel: RANGES_AT_ONCE, decompress: decompressStream };
    const gatherOne = async ({ index, file }: { index: string; file: StoredSource }): Promise<void> => {
      const local = (await destination?.look(file, how.checksum, either.signal)) ?? 'absent';
      if (local === 'whole') this.#present += 1;
      else if (local === 'differs') this.#lacks(index, file, DIFFERS);
      else if (how.dryRun || destination === undefined) this.#got(file);
      else {
        const take = (): Promise<string | undefined> => destination.take(store, file, options);
        const why = await (file.size > RANGE_BYTES ? large(take) : take());
        if (why === undefined) this.#got(file);
        else this.#lacks(index, file, why);
      }
    };
    try {
      await forEachAtOnce(this.#files(shares), how.parallel, (one) =>
        gatherOne(one).catch((error: unknown) => {
          stop.abort(error);
          throw error;
        }),
      );
    } finally {
      either.unlink();
      progress.close();
      destination?.close();
    }
    this.#missing.close('more are missing');
    this.#summarize(how);
  }

  async *#files(
    shares: AsyncIterable<Share>,
  ): AsyncGenerator<{ readonly index: string; readonly file: StoredSource }> {
    for await (const { index, files } of this.told(shares)) {
      const names = new Set<string>();
      for (const file of files) {
        if (names.has(file.path)) this.#lacks(index, file, 'another result of this index has that name');
        else yield { index, file };
        names.add(file.path);
      }
    }
  }

  #got({ size }: StoredSource): void {
    this.#downloaded += 1;
    this.#bytes += size;
  }

  #lacks(index: string, { path, key }: StoredSource, why: string): void {
    this.#missing.warn(`${showPath(path)} of index ${index}: ${why}`, index, key);
  }

  #tellLeft({ index, partials, older }: Share): void {
    const parts = [
      ...(partials === 0 ? [] : [`${partials} partial (--with-partials)`]),
      ...(older === 0 ? [] : [`${older} older ${older === 1 ? 'copy' : 'copies'}`]),
    ];
    if (parts.length > 0) this.#left.info(`index ${index} leaves ${parts.join(', ')}`, index);
  }

  #summarize({ directory, dryRun }: How): void {
    const got = `${plural(this.#downloaded, 'file')} (${formatBytes(this.#bytes)})`;
    const present = this.#present === 0 ? '' : `; ${plural(this.#present, 'file')} there already`;
    const missing = this.#missing.count === 0 ? '' : `; ${this.#missing.count} missing`;
    const what = dryRun ? `would gather ${got} into` : `gathered ${got} into`;
    this.#tools.log.info(`${what} ${directory}${present}${missing}`, { event: 'summary' });
  }
}

/** Messages of one kind: the first few are told, the others counted. */
class Lines {
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

  /** `what` follows the number of those that were not told. */
  close(what: string): void {
    if (this.#count > MOST_LINES) this.#log.warn(`${this.#count - MOST_LINES} ${what}`);
  }
}
