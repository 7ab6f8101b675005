// Read this first. The library: the commands of capture for programs in JavaScript and TypeScript. Each function starts
// the command (child.ts), and makes values, events and errors of what it says. It must never do itself what a command does.
import { EXIT } from '../model/exit-status.ts';
import type { ArrayStatus, OneIndexStatus, VerifiedIndex } from '../model/format/json-output.ts';
import type {
  EndFields,
  EventName,
  GatherFields,
  MessageLine as CaptureEvent,
  RestoreFields,
} from '../model/format/message-fields.ts';
import {
  accompany,
  type CaptureOptions,
  type Ended,
  fromJson,
  look,
  refusalOf,
  type Stream,
} from './child.ts';
import { Feed } from './feed.ts';
import type {
  GatherSettings,
  RestoreSettings,
  RunSettings,
  StatusSettings,
  VerifySettings,
} from './settings.ts';
import { wordsOf } from './words.ts';

export { CaptureError } from '../model/errors.ts';
export type { Mistake } from '../model/errors.ts';
export type * from '../model/format/json-output.ts';
export type {
  EndFields,
  EventName,
  GatherFields,
  MessageLine as CaptureEvent,
  RestoreFields,
} from '../model/format/message-fields.ts';
export type { CaptureOptions, Stream } from './child.ts';
export {
  FencedError,
  IncompleteError,
  MissingError,
  ProgramError,
  UnavailableError,
  UsageError,
} from './errors.ts';
export type * from './settings.ts';

/**
 * A command at work. `await` it for its result; iterate over it, before or meanwhile, for its items: events, or the
 * indices of `verify`. If the command fails, both throw a CaptureError. Items wait until they are read.
 */
export type Work<Item, Result> = Promise<Result> & AsyncIterable<Item>;

export interface RunOptions extends CaptureOptions {
  /** stdin, stdout and stderr of the task: this process's own if it is left out. */
  readonly stdio?: readonly [Stream, Stream, Stream] | undefined;
}

export interface RunEnd {
  /** As of `capture`: the task's own, 74 if something is not stored, 75 if it is to run again, and so on. */
  readonly status: number;
  /** Undefined if `skip-done` started nothing, or capture was killed. */
  readonly end: EndFields | undefined;
}

/**
 * Runs a task with capture beside it. Resolves with any status once the task has started: look at it. An aborted signal
 * ends the task as SIGTERM to capture does, with its grace; the status is then 75 (run it again), or 0 if the task ended
 * with 0.
 *
 * @throws UsageError (64), MissingError (66), UnavailableError (69), FencedError (76), ProgramError (126, 127), or
 *   another CaptureError (70), if nothing was started; and what aborted the signal, if that was before the start.
 */
export function run(
  { command, job, ...settings }: RunSettings,
  { stdio = ['inherit', 'inherit', 'inherit'], ...options }: RunOptions = {},
): Work<CaptureEvent, RunEnd> {
  return work(
    options,
    async (feed) => {
      const words = ['run', ...(job === undefined ? [] : [job]), ...wordsOf(settings)];
      return accompany({ options: words, task: command }, { ...options, stdio }, feed.push);
    },
    (ended) => ({ status: ended.status, end: fieldsOf<EndFields>(ended, 'end', 'kind') }),
  );
}

/**
 * Brings inputs and the newest good checkpoint into the work directory, and starts nothing.
 *
 * @throws UsageError (64), MissingError (66), UnavailableError (69), FencedError (76)
 */
export function restore(
  settings: RestoreSettings,
  options: CaptureOptions = {},
): Work<CaptureEvent, RestoreFields> {
  return work(
    options,
    async (feed) => look({ options: ['restore', ...wordsOf(settings)] }, options, { onEvent: feed.push }),
    (ended) => fieldsOf<RestoreFields>(ended, 'end', 'files') ?? { files: 0 },
  );
}

/**
 * The state of each index of an array, or with `index` all that is known of one.
 *
 * @throws UsageError (64), MissingError (66) if nothing is stored there, UnavailableError (69)
 */
export function status(
  url: string,
  settings: StatusSettings & { readonly index: string | number },
  options?: CaptureOptions,
): Work<CaptureEvent, OneIndexStatus>;
export function status(
  url: string,
  settings?: StatusSettings & { readonly index?: undefined },
  options?: CaptureOptions,
): Work<CaptureEvent, ArrayStatus>;
export function status(
  url: string,
  settings: StatusSettings = {},
  options: CaptureOptions = {},
): Work<CaptureEvent, ArrayStatus | OneIndexStatus> {
  const printed: string[] = [];
  return work(
    options,
    async (feed) => {
      const words = { options: ['status', '--json', ...wordsOf(settings)], task: [url] };
      return look(words, options, { onEvent: feed.push, onLine: (line) => void printed.push(line) });
    },
    () => JSON.parse(printed.join('')) as ArrayStatus | OneIndexStatus,
  );
}

export interface Gathered extends GatherFields {
  /** All that was asked for is there, whole. */
  readonly isComplete: boolean;
}

/**
 * Brings the results of all indices into one directory, decompressed and checked.
 *
 * @throws IncompleteError (1) if not all indices are done and `incomplete` is not set, UsageError (64), MissingError
 *   (66), UnavailableError (69)
 */
export function gather(
  url: string,
  directory: string,
  settings: GatherSettings = {},
  options: CaptureOptions = {},
): Work<CaptureEvent, Gathered> {
  return work(
    options,
    async (feed) =>
      look({ options: ['gather', ...wordsOf(settings)], task: [url, directory] }, options, {
        onEvent: feed.push,
      }),
    (ended) => {
      const {
        files = 0,
        bytes = 0,
        present = 0,
        missing = 0,
      } = fieldsOf<GatherFields>(ended, 'summary', 'files') ?? {};
      return { files, bytes, present, missing, isComplete: ended.status === EXIT.ok };
    },
  );
}

export interface Verified {
  /** Everything that was closed is stored, and whole. */
  readonly isWhole: boolean;
}

/**
 * Checks that everything that is recorded is there, whole. Iterate for what was found of each index, in order.
 *
 * @throws UsageError (64), MissingError (66), UnavailableError (69)
 */
export function verify(
  url: string,
  settings: VerifySettings = {},
  options: CaptureOptions = {},
): Work<VerifiedIndex, Verified> {
  return work(
    options,
    async (feed) => {
      const onLine = (line: string): void => {
        const found = fromJson<VerifiedIndex>(line);
        if (found !== undefined) feed.push(found);
      };
      return look({ options: ['verify', '--json', ...wordsOf(settings)], task: [url] }, options, { onLine });
    },
    (ended) => ({ isWhole: ended.status === EXIT.ok }),
  );
}

function work<Item extends object, Result>(
  { signal }: CaptureOptions,
  begin: (feed: Feed<Item>) => Promise<Ended>,
  resultOf: (ended: Ended) => Result,
): Work<Item, Result> {
  const feed = new Feed<Item>();
  const result = begin(feed)
    .then((ended) => {
      const refusal = refusalOf(ended);
      if (refusal !== undefined) throw signal?.aborted === true ? signal.reason : refusal;
      return resultOf(ended);
    })
    .finally(() => feed.end());
  const items = async function* items(): AsyncGenerator<Item, void, undefined> {
    // Who iterates gets the error behind the last item.
    result.catch(() => undefined);
    yield* feed.read();
    await result;
  };
  return Object.assign(result, { [Symbol.asyncIterator]: items });
}

/** The last event of this name with this field. */
function fieldsOf<Fields>({ told }: Ended, name: EventName, field: keyof Fields): Fields | undefined {
  return told.findLast((one) => one.event === name && Object.hasOwn(one, field)) as Fields | undefined;
}
