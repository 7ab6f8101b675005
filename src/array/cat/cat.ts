// `capture cat <url> <index> <path>`: writes one result, or a file of a checkpoint set, decompressed to stdout. The
// bytes are checked against the record; bytes that differ are not passed on as if they were right.
import type { Tools } from '../../cli/command.ts';
import { group } from '../../cli/options/spec.ts';
import type { Reader } from '../../cli/options/readers.ts';
import { generationName, type History } from '../../model/checkpoint/history.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { Companion, Generation, StoredFile } from '../../model/format/records.ts';
import { type RelPath, showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { NO_ZSTD_HINT } from '../../native/zstd.ts';
import { listRecords } from '../../records/list.ts';
import { decompressStream } from '../../restore/decompress.ts';
import { CorruptError, NoZstdError } from '../../restore/failure.ts';
import { recordedBytes } from '../../restore/fetch.ts';
import { ObjectMissingError } from '../../restore/object-stream.ts';
import type { Output } from '../../cli/output.ts';
import { onArray } from '../command.ts';
import { contentsIn } from '../contents.ts';
import { readIndex } from '../options.ts';
import type { Store } from '../../store/contract/store.ts';
import { noIndex, type StoredArray } from '../stored-array.ts';

const setName: Reader<string> = (text) =>
  /^[1-9]\d*-[1-9]\d*$/.test(text)
    ? { value: text }
    : { is: 'not a checkpoint: its attempt, and its number in it', example: '2-5' };

const OPTIONS = group('Cat:', {
  generation: {
    flags: '--generation <name>',
    help: 'a file of this checkpoint, as capture ls names it (2-5)',
    read: setName,
    otherwise: 'the result of that name',
  },
});

interface CatRequest {
  readonly index: string;
  readonly path: RelPath;
  readonly generation: string | undefined;
}

export const catCommand = onArray({
  name: 'cat',
  opens: true,
  help: {
    about:
      'Writes one result of an index, or with --generation a file of a checkpoint, to stdout: decompressed, and ' +
      'checked against the md5 of its record. A file of up to 8 MiB is checked before its first byte is written.',
    statuses: {
      0: 'the whole file was written, and it matches its record',
      1: 'there is no such file, or it is damaged: then the output is incomplete',
    },
    examples: [
      'capture cat s3://lab/run7 17 out/r.dat',
      'capture cat s3://lab/run7 17 state.chk --generation 2-5',
    ],
  },
  options: OPTIONS,
  read: ({ generation }, line): CatRequest => {
    const path = (line.operands.path ?? '').replace(/^(\.\/)+/, '');
    return { index: readIndex(line) ?? '', path, generation };
  },
  act: cat,
});

const FAILED: ExitStatus = 1;
/** Smaller files are checked completely before anything is written. Of a larger file, the last bytes are held back. */
const HELD_BYTES = 8 * 2 ** 20;
/** Ranges of a large object that are requested concurrently: each takes 8 MiB of memory. */
const RANGES_AT_ONCE = 4;

async function cat(
  array: StoredArray,
  request: CatRequest,
  { out, log, signal }: Tools,
): Promise<ExitStatus> {
  const listing = await listRecords(array.store, { taskName: array.taskName, index: request.index }, signal);
  const { attempts, problems, history, generations, partials } = await contentsIn(array, listing, signal);
  for (const problem of problems) log.warn(problem, { event: 'damaged', index: request.index });
  if (attempts.length === 0) throw noIndex(array, request.index);
  const file = fileOf({ ...history, generations, partials }, request, array.store);
  const options = { parallel: RANGES_AT_ONCE, decompress: decompressStream, signal };
  const held = new HeldBack(out);
  try {
    for await (const chunk of recordedBytes(array.store, file, options)) await held.write(chunk);
    await held.end();
    return EXIT.ok;
  } catch (error) {
    const why = whyDamaged(error);
    if (why === undefined) throw error;
    const written = held.written === 0 ? '' : `; ${formatBytes(held.written)} of it are written already`;
    log.error(`${showPath(request.path)} of index ${request.index} is damaged: ${why}${written}`, {
      event: 'damaged',
      index: request.index,
      path: request.path,
      hint: `capture verify ${array.store.url} says what is whole`,
    });
    return FAILED;
  }
}

/** Undefined if the cause is the store or this machine, not damage. */
function whyDamaged(error: unknown): string | undefined {
  if (error instanceof NoZstdError) throw new CaptureError(FAILED, error.message, { hint: NO_ZSTD_HINT });
  return error instanceof CorruptError || error instanceof ObjectMissingError ? error.message : undefined;
}

type Readable = Parameters<typeof recordedBytes>[1];

function fileOf(history: History, { path, index, generation: name }: CatRequest, { url }: Store): Readable {
  const { results, generations } = history;
  const list = `capture ls ${url} ${index} shows what there is`;
  if (name === undefined) {
    const file = results.get(path);
    if (file !== undefined) return file;
    throw noFile(`index ${index} has no result ${showPath(path)}`, hintOf(history, path) ?? list);
  }
  const generation = generations.find((one) => generationName(one) === name);
  if (generation === undefined) {
    const names = generations.map(generationName).join(', ') || 'none';
    throw noFile(`index ${index} has no checkpoint ${name} (it has: ${names})`, list);
  }
  const member = memberOf(generation, path);
  if (member !== undefined) return 'key' in member ? member : { ...JOINED, ...member };
  throw noFile(`checkpoint ${name} of index ${index} has no file ${showPath(path)}`, list);
}

/** Placeholders for fields that a file in segments has only per segment. */
const JOINED = { key: '', compressed: false, md5: '' } as const;

function memberOf({ members, companions }: Generation, path: RelPath): StoredFile | Companion | undefined {
  return members.find((one) => one.path === path) ?? companions.find((one) => one.path === path);
}

/** Names other files with this path. */
function hintOf({ generations, partials }: History, path: RelPath): string | undefined {
  const generation = generations.find((one) => memberOf(one, path) !== undefined);
  if (generation !== undefined)
    return `--generation ${generationName(generation)}: it is a file of that checkpoint`;
  const isStaged = partials.some((one) => one.path === path);
  return isStaged
    ? 'capture gather --with-partials: it is only staged, as a dying process may have closed it'
    : undefined;
}

function noFile(message: string, hint: string): CaptureError {
  return new CaptureError(FAILED, message, { hint });
}

/** Passes bytes on, but holds back the last ones until all bytes are known to be right. */
class HeldBack {
  readonly #out: Output;
  #waiting: Uint8Array[] = [];
  #waitingBytes = 0;
  written = 0;

  constructor(out: Output) {
    this.#out = out;
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.byteLength;
    while (this.#waitingBytes > HELD_BYTES) await this.#pass();
  }

  async end(): Promise<void> {
    while (this.#waiting.length > 0) await this.#pass();
  }

  async #pass(): Promise<void> {
    const first = this.#waiting.shift();
    if (first === undefined) return;
    this.#waitingBytes -= first.byteLength;
    this.written += first.byteLength;
    await this.#out.passOn(first);
  }
}
