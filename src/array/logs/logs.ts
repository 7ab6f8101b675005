// `capture logs <url>`: the stored stdout and stderr of the task of one index. With --follow, also what it still writes.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Tools } from '../../cli/command.ts';
import { choice, count } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { type KeyScope, parseRecordKey, sealedEnding } from '../../model/format/keys.ts';
import type { OutputStream } from '../../model/format/output-keys.ts';
import { isLast, RECORD_KINDS } from '../../model/format/records.ts';
import { readClaim } from '../../records/claim.ts';
import { listRecords } from '../../records/list.ts';
import { onArray } from '../command.ts';
import { lookAgain } from '../look-again.ts';
import { INDEX_OPTION, readIndex } from '../options.ts';
import { noIndex, onlyIndex, type StoredArray } from '../stored-array.ts';
import { listSegments, type ListedSegment, newestAttempt, streamsOf } from '../segments.ts';
import { StreamReader } from '../stream-reader.ts';

const OPTIONS = group('Which output:', {
  index: {
    ...INDEX_OPTION,
    help: 'the index whose output is shown',
    otherwise: 'the only one that is stored',
  },
  attempt: {
    flags: '--attempt <n>',
    help: 'of which attempt',
    read: count(1, Infinity),
    otherwise: 'the newest that has any',
  },
  stream: {
    flags: '--stream <name>',
    help: 'stdout or stderr alone, if the task had a file for each',
    read: choice('stdout', 'stderr'),
    otherwise: 'both, one after the other',
  },
  follow: { flags: '--follow', help: 'also show what is stored from now on, until the attempt has ended' },
  raw: {
    flags: '--raw',
    help: 'also on a terminal, write each byte as the task wrote it, with colours and control characters',
  },
});

/** The parsed command line. */
interface OutputRequest extends Omit<ValuesOf<typeof OPTIONS>, 'index'> {
  readonly scope: KeyScope;
}

export const logsCommand = onArray({
  name: 'logs',
  opens: true,
  help: {
    about:
      'Prints what the task of one index wrote to stdout and stderr, as far as it is stored: with --log-output while the ' +
      'task runs, up to the last minute or so; without it, the end of an attempt that failed.',
    statuses: { 0: 'printed' },
    examples: [
      'capture logs s3://lab/run7 3',
      'capture logs s3://lab/run7 --index 3 --follow',
      'capture logs s3://lab/run7 3 --attempt 1 --stream stderr',
    ],
  },
  options: OPTIONS,
  read: (options, line) => ({ ...options, index: readIndex(line) ?? options.index }),
  act: async (array, { index: given, ...options }, tools) => {
    const index = given ?? (await onlyIndex(array, tools.signal));
    return logs(array, { ...options, scope: { taskName: array.taskName, index } }, tools);
  },
});

async function logs(array: StoredArray, request: OutputRequest, tools: Tools): Promise<ExitStatus> {
  const { scope, follow } = request;
  const first = await listSegments(array.store, scope, tools.signal);
  const attempt =
    request.attempt ??
    newestAttempt(first) ??
    (follow ? await runningAttempt(array, scope, tools) : undefined);
  if (attempt === undefined || (!follow && wanted(first, attempt, request).size === 0))
    throw await nothingStored(array, request, streamsOf(first, attempt ?? 0), tools.signal);
  const found = wanted(first, attempt, request);
  if (found.size === 0) tools.log.info(`attempt ${attempt} has stored no ${request.stream ?? 'output'} yet`);
  // Says whose identity opens it, if the one that is given does not.
  if (first.some(({ key }) => sealedEnding(key) !== undefined))
    await readClaim(array.store, scope, attempt, tools.signal);
  const printer = new Printer(array, request, tools);
  await printer.print(found);
  if (follow) await followUntilEnd(array, request, { attempt, printer, tools });
  return EXIT.ok;
}

function wanted(
  segments: readonly ListedSegment[],
  attempt: number,
  { stream }: OutputRequest,
): ReadonlyMap<OutputStream, readonly ListedSegment[]> {
  const all = streamsOf(segments, attempt);
  return stream === undefined ? all : new Map([...all].filter(([one]) => one === stream));
}

/** Waits even if nothing is stored yet: the first output arrives within a minute. */
async function runningAttempt(
  { store, taskName }: StoredArray,
  scope: KeyScope,
  { signal }: Tools,
): Promise<number | undefined> {
  const { newestAttempt: newest } = await listRecords(store, scope, signal);
  if (newest === 0) return undefined;
  const ended = await hasEnded({ store, taskName }, scope, newest, signal);
  return ended === undefined ? newest : undefined;
}

/** `streams` are the streams that the attempt has. */
async function nothingStored(
  array: StoredArray,
  { scope, attempt, stream }: OutputRequest,
  streams: ReadonlyMap<OutputStream, unknown>,
  signal: AbortSignal,
): Promise<CaptureError> {
  const { newestAttempt: newest } = await listRecords(array.store, scope, signal);
  if (newest === 0) return noIndex(array, scope.index);
  const of = attempt === undefined ? '' : `, attempt ${attempt}`;
  return new CaptureError(
    EXIT.inputMissing,
    `no ${stream ?? 'output'} of index ${scope.index}${of} of task ${scope.taskName} is stored under ${array.store.url}`,
    { hint: hintFor(attempt ?? newest, newest, streams) },
  );
}

function hintFor(attempt: number, newest: number, streams: ReadonlyMap<OutputStream, unknown>): string {
  if (attempt > newest) return `its attempts are 1 to ${newest}`;
  if (streams.has('output')) return 'leave out --stream: its stdout and stderr are one file';
  return 'a run with --log-output stores its output once a minute and at the end, a run without it only the end of a failure';
}

/** Prints one stream after the other. If there are two, a line on stderr names each. */
class Printer {
  readonly #array: StoredArray;
  readonly #request: OutputRequest;
  readonly #tools: Tools;
  readonly #readers = new Map<OutputStream, StreamReader>();

  constructor(array: StoredArray, request: OutputRequest, tools: Tools) {
    this.#array = array;
    this.#request = request;
    this.#tools = tools;
  }

  async print(streams: ReadonlyMap<OutputStream, readonly ListedSegment[]>): Promise<void> {
    const { log } = this.#tools;
    for (const [stream, segments] of streams) {
      if (streams.size > 1 && !this.#request.follow) log.info(`${stream}:`);
      await this.#readerOf(stream).read(segments);
    }
  }

  #readerOf(stream: OutputStream): StreamReader {
    const { out, log, signal } = this.#tools;
    const known = this.#readers.get(stream);
    if (known !== undefined) return known;
    const made = new StreamReader({
      store: this.#array.store,
      write: (bytes) => (this.#request.raw ? out.write(bytes) : out.passOn(bytes)),
      onGap: (what) => log.warn(`${stream}: ${what}`),
      signal,
    });
    this.#readers.set(stream, made);
    return made;
  }
}

/** capture stores new output once a minute, so more frequent polls would show nothing sooner. */
const EVERY_MS = 5000;

interface Following {
  readonly attempt: number;
  readonly printer: Printer;
  readonly tools: Tools;
}

/** The last segments are stored before the last record, so the records are checked first. */
async function followUntilEnd(
  array: StoredArray,
  request: OutputRequest,
  { attempt, printer, tools }: Following,
): Promise<void> {
  const { log, signal } = tools;
  for (;;) {
    const ended = await lookAgain(async () => {
      const why = await hasEnded(array, request.scope, attempt, signal);
      await printer.print(wanted(await listSegments(array.store, request.scope, signal), attempt, request));
      return why;
    });
    if (ended !== undefined) return log.info(ended);
    await sleep(EVERY_MS, undefined, { signal });
  }
}

/** Why this attempt will write nothing more; undefined if it may. */
async function hasEnded(
  { store }: StoredArray,
  scope: KeyScope,
  attempt: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { keys, newestAttempt: newest } = await listRecords(store, scope, signal);
  if (newest > attempt) return `attempt ${newest} has begun: attempt ${attempt} writes no more`;
  const last = keys.map(parseRecordKey).findLast((at) => at?.attempt === attempt);
  const kind = RECORD_KINDS.find((one) => one === last?.kind);
  return kind !== undefined && isLast(kind) ? `attempt ${attempt} has ended: ${kind}` : undefined;
}
