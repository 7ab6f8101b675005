// `capture logs <url>`: what the task of one index wrote to stdout and stderr, as far as it is stored (--log-output); and
// with --follow what it still writes.
import { setTimeout as sleep } from 'node:timers/promises';
import { choice, count } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { type KeyScope, parseRecordKey } from '../../model/format/keys.ts';
import type { OutputStream } from '../../model/format/output-keys.ts';
import { isLast, RECORD_KINDS } from '../../model/format/records.ts';
import { listRecords } from '../../records/list.ts';
import type { ArrayCommand, CarryOut, Line, Tools } from '../command.ts';
import { lookAgain } from '../look-again.ts';
import { oneIndex, readIndex } from '../one-index.ts';
import { atPlace, noIndex, type Place, readPlace } from '../place.ts';
import { StreamReader } from './reader.ts';
import { listSegments, type ListedSegment, newestAttempt, streamsOf } from './segments.ts';

const OPTIONS = group('Which output:', {
  index: {
    flags: '--index <id>',
    kind: 'value',
    help: 'of which index',
    read: oneIndex,
    otherwise: '0, a task that is in no array',
  },
  attempt: {
    flags: '--attempt <n>',
    kind: 'value',
    help: 'of which attempt',
    read: count(1, Infinity),
    otherwise: 'the newest that has any',
  },
  stream: {
    flags: '--stream <name>',
    kind: 'value',
    help: 'stdout or stderr alone, if the task had a file for each',
    read: choice('stdout', 'stderr'),
    otherwise: 'both, one after the other',
  },
  follow: {
    flags: '--follow',
    kind: 'flag',
    help: 'and what is stored from now on, until the attempt has ended',
  },
  raw: {
    flags: '--raw',
    kind: 'flag',
    help: 'on a terminal, too, each byte as the task wrote it: colours, and whatever else it may do to the terminal',
  },
});

export const logsCommand: ArrayCommand = {
  help: {
    about:
      'Prints what the task of one index wrote to stdout and stderr, as far as a run with --log-output has stored it: ' +
      'while the task runs, up to the last minute or so.',
    statuses: '    0  printed',
    examples: [
      'capture logs s3://lab/run7 3',
      'capture logs s3://lab/run7 --index 3 --follow',
      'capture logs s3://lab/run7 3 --attempt 1 --stream stderr',
    ],
  },
  options: Object.values(OPTIONS),
  read: (line) => readLogs(line),
};

/** What was asked for. */
interface Asked {
  readonly scope: KeyScope;
  readonly attempt: number | undefined;
  readonly stream: OutputStream | undefined;
  readonly follow: boolean;
  /** Also on a terminal. */
  readonly raw: boolean;
}

function readLogs(line: Line): CarryOut {
  const { values } = line;
  const given = readPlace(line);
  const index = readIndex(line, OPTIONS.index) ?? '0';
  const asked = {
    attempt: values.of(OPTIONS.attempt),
    stream: values.of(OPTIONS.stream),
    follow: values.has(OPTIONS.follow),
    raw: values.has(OPTIONS.raw),
  };
  return atPlace(given, (place, tools) =>
    logs(place, { ...asked, scope: { taskName: place.taskName, index } }, tools),
  );
}

async function logs(place: Place, asked: Asked, tools: Tools): Promise<ExitStatus> {
  const { scope, follow } = asked;
  const first = await listSegments(place.store, scope, tools.signal);
  const attempt =
    asked.attempt ?? newestAttempt(first) ?? (follow ? await runningAttempt(place, scope, tools) : undefined);
  if (attempt === undefined || (!follow && wanted(first, attempt, asked).size === 0))
    throw await nothingStored(place, asked, streamsOf(first, attempt ?? 0), tools.signal);
  const found = wanted(first, attempt, asked);
  if (found.size === 0) tools.log.info(`attempt ${attempt} has stored no ${asked.stream ?? 'output'} yet`);
  const printer = new Printer(place, asked, tools);
  await printer.print(found);
  if (follow) await followUntilEnd(place, asked, { attempt, printer, tools });
  return EXIT.ok;
}

function wanted(
  segments: readonly ListedSegment[],
  attempt: number,
  { stream }: Asked,
): ReadonlyMap<OutputStream, readonly ListedSegment[]> {
  const all = streamsOf(segments, attempt);
  return stream === undefined ? all : new Map([...all].filter(([one]) => one === stream));
}

/** That it has stored nothing yet is no reason to go away: its first output comes within a minute. */
async function runningAttempt(
  { store, taskName }: Place,
  scope: KeyScope,
  { signal }: Tools,
): Promise<number | undefined> {
  const { newestAttempt: newest } = await listRecords(store, scope, signal);
  if (newest === 0) return undefined;
  const ended = await hasEnded({ store, taskName }, scope, newest, signal);
  return ended === undefined ? newest : undefined;
}

/** `streams`: those that the attempt has. */
async function nothingStored(
  place: Place,
  { scope, attempt, stream = 'output' }: Asked,
  streams: ReadonlyMap<OutputStream, unknown>,
  signal: AbortSignal,
): Promise<CaptureError> {
  const { newestAttempt: newest } = await listRecords(place.store, scope, signal);
  if (newest === 0) return noIndex(place, scope.index);
  const of = attempt === undefined ? '' : `, attempt ${attempt}`;
  return new CaptureError(
    EXIT.inputMissing,
    `no ${stream} of index ${scope.index}${of} of task ${scope.taskName} is stored under ${place.store.url}`,
    { hint: hintFor(attempt ?? newest, newest, streams) },
  );
}

function hintFor(attempt: number, newest: number, streams: ReadonlyMap<OutputStream, unknown>): string {
  if (attempt > newest) return `its attempts are 1 to ${newest}`;
  if (streams.has('output')) return 'leave out --stream: its stdout and stderr are one file';
  return 'run the task with --log-output, and let its output go to a file: it is stored once a minute, and at the end';
}

/** One stream after the other; of two streams each says which it is, on stderr. */
class Printer {
  readonly #place: Place;
  readonly #asked: Asked;
  readonly #tools: Tools;
  readonly #readers = new Map<OutputStream, StreamReader>();

  constructor(place: Place, asked: Asked, tools: Tools) {
    this.#place = place;
    this.#asked = asked;
    this.#tools = tools;
  }

  async print(streams: ReadonlyMap<OutputStream, readonly ListedSegment[]>): Promise<void> {
    const { log } = this.#tools;
    for (const [stream, segments] of streams) {
      if (streams.size > 1 && !this.#asked.follow) log.info(`${stream}:`);
      await this.#readerOf(stream).read(segments);
    }
  }

  #readerOf(stream: OutputStream): StreamReader {
    const { out, log, signal } = this.#tools;
    const known = this.#readers.get(stream);
    if (known !== undefined) return known;
    const made = new StreamReader({
      store: this.#place.store,
      write: (bytes) => (this.#asked.raw ? out.write(bytes) : out.passOn(bytes)),
      onGap: (what) => log.warn(`${stream}: ${what}`),
      signal,
    });
    this.#readers.set(stream, made);
    return made;
  }
}

/** capture stores new output once a minute: to ask more often shows nothing sooner. */
const EVERY_MS = 5000;

interface Following {
  readonly attempt: number;
  readonly printer: Printer;
  readonly tools: Tools;
}

/** The last segments are stored before the last record: so the look at the records comes first. */
async function followUntilEnd(
  place: Place,
  asked: Asked,
  { attempt, printer, tools }: Following,
): Promise<void> {
  const { log, signal } = tools;
  for (;;) {
    const ended = await lookAgain(async () => {
      const why = await hasEnded(place, asked.scope, attempt, signal);
      await printer.print(wanted(await listSegments(place.store, asked.scope, signal), attempt, asked));
      return why;
    });
    if (ended !== undefined) return log.info(ended);
    await sleep(EVERY_MS, undefined, { signal });
  }
}

/** Why nothing more will come of this attempt; undefined if it may. */
async function hasEnded(
  { store }: Place,
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
