// The task's stdout and stderr in the store. With --log-output while it runs: at intervals, when we will be stopped, and
// at the end. Otherwise only their end, and only of an attempt that fails. They help if the machine is gone: output that
// cannot be stored causes a warning, never a failure.
import fs from 'node:fs';
import { LEAST_LEVEL } from '../../model/compression-level.ts';
import { reasonOf } from '../../model/errors.ts';
import type { OutputsFrom } from '../../model/format/messages.ts';
import { type OutputStream, parseOutputKey, streamPrefix } from '../../model/format/output-keys.ts';
import { whileLinked } from '../../model/waiting.ts';
import { compressorOfThread } from '../../read/encode.ts';
import { StoreError } from '../../store/contract/store.ts';
import { CompanionClock } from '../checkpoints/captures.ts';
import type { Needs } from '../run/context.ts';
import { Follower, type FollowerNeeds, type FollowerOptions, type StoredSegment } from './follower.ts';
import { openSources, type OutputSources } from './sources.ts';

type OutputsContext = FollowerNeeds & Needs<'settings' | 'log' | 'outage' | 'signal' | 'resumed'>;

export interface Outputs {
  /** Stores new output, unless that is under way. */
  soon(): void;
  /** The task has ended: stores the rest. Never rejects. Resolves to why nothing, or a stream, is not stored. */
  last(signal: AbortSignal, isFailed: boolean): Promise<string | undefined>;
  close(): Promise<void>;
}

/** How much of each stream is kept of an attempt that fails. */
const END_BYTES = 64 * 2 ** 10;

const TO_FILE = 'let it go to a file: capture ... >task.log 2>&1';

interface OutputsOptions {
  /** The process that has the task's descriptors. */
  readonly launcher?: number | undefined;
  readonly outputsFrom?: OutputsFrom | undefined;
}

/** Sends nothing yet. */
export async function openOutputs(
  context: OutputsContext,
  { launcher, outputsFrom }: OutputsOptions,
): Promise<Outputs> {
  const { settings, log } = context;
  const { outputLimitBytes: limitBytes } = settings;
  if (limitBytes === 0) return nothingOf('--no-last-lines');
  if (launcher === undefined || outputsFrom === undefined)
    return nothingOf('capture watch does not see what the task writes');
  if (limitBytes === undefined) return endOfFailed(context, launcher, outputsFrom);
  const { sources, refused } = openSources(launcher, outputsFrom);
  if (refused.length > 0)
    log.warn(`--log-output: ${refused.join(', ')}: only its reader can read that, so it is not stored`, {
      hint: TO_FILE,
    });
  if (sources.length === 0) return nothingOf(refused.join(', '));
  return follow(context, { sources, refused }, { limitBytes, isEndOnly: false });
}

function nothingOf(why: string): Outputs {
  return { soon: () => undefined, last: async () => why, close: async () => undefined };
}

/** Opens nothing before the attempt has failed: a run that does not fail pays nothing. */
function endOfFailed(context: OutputsContext, launcher: number, outputsFrom: OutputsFrom): Outputs {
  return {
    soon: () => undefined,
    last: async (signal, isFailed) => {
      if (!isFailed) return undefined;
      const opened = openSources(launcher, outputsFrom);
      const running = await follow(context, opened, { limitBytes: END_BYTES, isEndOnly: true });
      const why = await running.last(signal);
      await running.close();
      return why;
    },
    close: async () => undefined,
  };
}

async function follow(
  context: OutputsContext,
  { sources, refused }: OutputSources,
  kept: Pick<FollowerOptions, 'limitBytes' | 'isEndOnly'>,
): Promise<RunningOutputs> {
  const { compression } = context.settings;
  const compressor = compression.kind === 'zstd' ? await compressorOfThread() : undefined;
  // The task writes little: a chosen level would gain nothing.
  const level = compression.kind === 'zstd' && compression.level !== 'auto' ? compression.level : LEAST_LEVEL;
  const followers = sources.map((source) => {
    const before = (signal: AbortSignal): Promise<StoredSegment | undefined> =>
      storedBefore(context, source.stream, compressor !== undefined, signal);
    return new Follower({ ...kept, context, source, compressor, level, before });
  });
  return new RunningOutputs(context, { sources, refused }, followers);
}

class RunningOutputs implements Outputs {
  readonly #context: OutputsContext;
  readonly #opened: OutputSources;
  readonly #followers: readonly Follower[];
  readonly #clock: CompanionClock;
  /** Aborts a store that an interval has begun. */
  readonly #ending = new AbortController();
  readonly #warned = new Set<Follower>();
  #underWay: Promise<void> = Promise.resolve();

  constructor(context: OutputsContext, opened: OutputSources, followers: readonly Follower[]) {
    this.#context = context;
    this.#opened = opened;
    this.#followers = followers;
    const capture = (): Promise<void> =>
      whileLinked([context.signal, this.#ending.signal], (signal) => this.#inTurn(signal));
    this.#clock = new CompanionClock(capture, context.settings.companionIntervalMs);
    this.#clock.captured();
    // Output that the predecessor had not stored has waited long enough.
    if (context.resumed !== undefined) this.soon();
  }

  soon(): void {
    this.#clock.now();
  }

  async last(signal: AbortSignal): Promise<string | undefined> {
    this.#end();
    await this.#inTurn(signal);
    const empty = this.#followers.flatMap((follower) => {
      if (follower.hasStored) return [];
      const name = follower.stream === 'output' ? 'stdout and stderr' : follower.stream;
      return this.#warned.has(follower) ? `${name} could not be stored` : `nothing was written to ${name}`;
    });
    const why = [...this.#opened.refused, ...empty];
    return why.length === 0 ? undefined : why.join(', ');
  }

  async close(): Promise<void> {
    this.#end();
    await this.#underWay;
    for (const { fd } of this.#opened.sources) fs.closeSync(fd);
  }

  #end(): void {
    this.#clock.close();
    this.#ending.abort(new Error('the run is at its end'));
  }

  #inTurn(signal: AbortSignal): Promise<void> {
    this.#underWay = this.#underWay.then(() => this.#store(signal));
    return this.#underWay;
  }

  async #store(signal: AbortSignal): Promise<void> {
    for (const follower of this.#followers) {
      try {
        // oxlint-disable-next-line no-await-in-loop -- one segment in memory at a time
        await follower.store(signal);
      } catch (error) {
        this.#failed(follower, error);
      }
    }
  }

  /** A store that refuses it does so each time: one warning is enough. */
  #failed(follower: Follower, error: unknown): void {
    const { log, outage, signal } = this.#context;
    const isTold = signal.aborted || (this.#ending.signal.aborted && !(error instanceof StoreError));
    if (isTold || outage.isKnown || this.#warned.has(follower)) return;
    this.#warned.add(follower);
    log.warn(`${follower.stream} of the task is not stored: ${reasonOf(error)}`, {
      hint: error instanceof StoreError ? error.hint : undefined,
    });
  }
}

/** The last stored segment, from which a sidecar continues that replaces a dead one. */
async function storedBefore(
  { store, scope, attempt, resumed }: OutputsContext,
  stream: OutputStream,
  compressed: boolean,
  signal: AbortSignal,
): Promise<StoredSegment | undefined> {
  if (resumed === undefined) return undefined;
  let newest: string | undefined;
  for await (const { key } of store.list(streamPrefix(scope, { attempt, stream }), signal)) newest = key;
  const segment = newest === undefined ? undefined : parseOutputKey(newest);
  if (newest === undefined || segment?.compressed !== compressed) return undefined;
  const { size, at } = (await store.head(newest, signal))?.meta ?? {};
  return { first: segment.first, at: Number(at), sizeBytes: Number(size) };
}
