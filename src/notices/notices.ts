// Read this first, then `source.ts`, the contract of a source. Opens the sources that the user chose, and passes on
// their notices that this machine is taken away. launch/notices.ts decides what follows.
import { setMaxListeners } from 'node:events';
import { reasonOf } from '../model/errors.ts';
import { type Notice, type NoticeChoice, sameNotice } from '../model/format/notice.ts';
import { AfterSource } from './after.ts';
import { AzureSource } from './azure.ts';
import { Ec2Source } from './ec2.ts';
import { FileSource } from './file.ts';
import { GceSource } from './gce.ts';
import { likelyCloud } from './platform.ts';
import type { NoticeLog, Pace, Source, SourceOptions } from './source.ts';

export interface NoticesOptions {
  /** Every `--notice`; with `none` among them no source is opened. */
  readonly choices: readonly NoticeChoice[];
  readonly env: NodeJS.ProcessEnv;
  readonly log: NoticeLog;
  /**
   * Called once for each notice. If its instant changes, the new notice is reported before the old one is withdrawn.
   */
  readonly onNotice: (notice: Notice) => void;
  /** The platform has withdrawn a notice. Called once, with the notice as it was reported. */
  readonly onWithdrawn: (notice: Notice) => void;
  readonly pace?: Pace;
}

export interface Notices {
  /**
   * Everything is stored: the platform need not wait any longer (Azure's approval). Takes at most 1 s, never throws.
   */
  done(): Promise<void>;
  /** No callback is called afterwards. */
  close(): void;
}

/** Spot notices come two minutes (EC2) or 30 s (Azure) ahead, so losing two seconds does no harm. */
export const PACE: Pace = { pollMs: 2000, timeoutMs: 1000, slowTimeoutMs: 130_000 };

/**
 * Starts listening and returns at once: nothing here blocks on a network, or keeps the process alive.
 *
 * @example openNotices({ choices: [{ kind: 'auto' }], env: process.env, log, onNotice, onWithdrawn })
 */
export function openNotices(options: NoticesOptions): Notices {
  const stop = new AbortController();
  // Every source, request and pause listens: that is not a leak.
  setMaxListeners(0, stop.signal);
  const told = new ReportedNotices(options.onNotice, options.onWithdrawn);
  const isSilent = options.choices.some(({ kind }) => kind === 'none');
  const sources = isSilent
    ? []
    : options.choices.flatMap((choice, at) => {
        const tell = (standing: readonly Notice[]): void => {
          if (!stop.signal.aborted) told.now(at, standing);
        };
        return open(choice, options, tell, stop.signal);
      });
  for (const source of sources) listen(source, options.log, stop.signal);
  return {
    done: async () => {
      await Promise.all(sources.map(async (source) => source.done?.()));
    },
    close: () => stop.abort(),
  };
}

function open(
  choice: NoticeChoice,
  options: NoticesOptions,
  tell: SourceOptions['tell'],
  signal: AbortSignal,
): readonly Source[] {
  const { env, log } = options;
  let isWarned = false;
  const source: SourceOptions = {
    env,
    pace: options.pace ?? PACE,
    log,
    named: choice.kind !== 'auto',
    tell,
    garbage: (message) => {
      if (!isWarned) log.warn(message);
      isWarned = true;
    },
    signal,
  };
  switch (choice.kind) {
    case 'none':
      return [];
    case 'auto': {
      const cloud = likelyCloud(env);
      log.debug(cloud === undefined ? 'no cloud here announces a stop' : `listening to ${cloud} for notices`);
      return cloud === undefined ? [] : [new CLOUDS[cloud](source)];
    }
    case 'ec2':
    case 'gce':
    case 'azure':
      return [new CLOUDS[choice.kind](source)];
    case 'file':
      return [new FileSource(source, choice.path)];
    case 'after':
      return [new AfterSource(source, choice.ms)];
  }
}

export const CLOUDS = { ec2: Ec2Source, gce: GceSource, azure: AzureSource } as const;

/** A failing source must not end the sidecar: notices are a help, and nothing depends on them. */
function listen(source: Source, log: NoticeLog, signal: AbortSignal): void {
  source.run().catch((error: unknown) => {
    if (!signal.aborted) log.warn(`a notice source gave up: ${reasonOf(error)}`, { err: error });
  });
}

/** The notices of all sources together: each is reported once, and withdrawn once, whichever source names it. */
class ReportedNotices {
  readonly #onNotice: (notice: Notice) => void;
  readonly #onWithdrawn: (notice: Notice) => void;
  readonly #bySource = new Map<number, readonly Notice[]>();
  #standing: readonly Notice[] = [];

  constructor(onNotice: (notice: Notice) => void, onWithdrawn: (notice: Notice) => void) {
    this.#onNotice = onNotice;
    this.#onWithdrawn = onWithdrawn;
  }

  /**
   * All current notices of one source. New ones are reported first: if an instant changes, there is always a notice.
   */
  now(source: number, notices: readonly Notice[]): void {
    this.#bySource.set(source, notices);
    const before = this.#standing;
    const all = [...this.#bySource.values()].flat();
    this.#standing = all.filter((notice, at) => all.findIndex(same(notice)) === at);
    for (const notice of this.#standing) if (!before.some(same(notice))) this.#onNotice(notice);
    for (const notice of before) if (!this.#standing.some(same(notice))) this.#onWithdrawn(notice);
  }
}

function same(notice: Notice): (other: Notice) => boolean {
  return (other) => sameNotice(notice, other);
}
