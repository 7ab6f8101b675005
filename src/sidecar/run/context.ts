// What the stages of the sidecar work with: one object, made by sidecar/startup/start.ts and owned by sidecar.ts. Each
// stage says which of it it takes (`Needs`).
import type { Log } from '../../log/log.ts';
import type { History } from '../../model/checkpoint/history.ts';
import type { Fingerprint } from '../../model/file/file-state.ts';
import type { Manifest } from '../../model/file/manifest.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import type { Lacking } from '../../model/format/records.ts';
import type { Resources } from '../../model/format/resources.ts';
import type { Settings } from '../../model/format/settings.ts';
import type { PathMap, Paths } from '../../model/packed/packed-map.ts';
import type { WorkDir } from '../../native/beneath.ts';
import type { Reclaimer } from '../../reclaim/reclaim.ts';
import type { Fence, Tidy } from '../../records/claim.ts';
import type { Baselines, Ledger } from '../../records/ledger.ts';
import type { Store } from '../../store/contract/store.ts';
import type { Sender } from '../../upload/send.ts';
import type { Handover } from './attempt-file.ts';
import type { Outage } from './outage.ts';
import type { Places } from './places.ts';
import type { Progress } from './progress.ts';
import type { OwnUse } from './shared.ts';
import type { TaskNews } from './task-news.ts';

/** The process that this run is of: its launcher, or this one. */
export interface Caller {
  readonly env: NodeJS.ProcessEnv;
  /** A descriptor of ours: where it writes its messages. */
  readonly stderr: number;
}

export const OURSELVES: Caller = { env: process.env, stderr: 2 };

export interface Context {
  readonly settings: Settings;
  readonly scope: KeyScope;
  readonly manifest: Manifest;
  readonly store: Store;
  readonly root: WorkDir;
  readonly log: Log;
  readonly attempt: number;
  readonly runToken: string;
  readonly startedAt: string;
  /**
   * Set if this attempt was begun before: by a sidecar that died, or by `capture restore --handoff`. Its task may be
   * running.
   */
  readonly resumed: 'replaced' | 'handed-over' | undefined;
  /** What is left for the next `capture watch` of this attempt; undefined below a launcher. */
  readonly handover: Handover | undefined;
  readonly history: History;
  readonly ledger: Ledger;
  readonly fence: Fence;
  readonly tidy: Tidy;
  /** What the sidecar that is being replaced had recorded of what this attempt uses. */
  readonly usedBefore: Resources | undefined;
  /** Reads files, and sends them under this attempt's name. */
  readonly sender: Sender;
  /** Undefined if nothing is ever reclaimed. */
  readonly reclaimer: Reclaimer | undefined;
  /** Content that needs no push: that of stored results, and of inputs that were there before the task started. */
  readonly baselines: Baselines;
  /** Declared files that were there before the task started, as they were. */
  readonly inherited: PathMap<Fingerprint>;
  /** What results have lost by the resume of this attempt, or of one before it. */
  readonly lacking: readonly Lacking[];
  /** Shared by everything that is known by path, because there may be very many. */
  readonly paths: Paths;
  /** Aborted when the sidecar gives everything up (fenced). */
  readonly signal: AbortSignal;
  /** Shared with other runs of this process. */
  readonly places: Places;
  readonly use: OwnUse;
  /** For what the user has run beside the task. */
  readonly caller: Caller;
  readonly progress: Progress;
  readonly outage: Outage;
  readonly now: () => number;
  readonly taskNews: TaskNews;
}

/** What one stage takes of it. */
export type Needs<Field extends keyof Context> = Pick<Context, Field>;
