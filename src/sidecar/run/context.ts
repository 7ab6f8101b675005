// The objects that the stages of the sidecar work with, made by sidecar/startup/start.ts and owned by sidecar.ts. Each
// stage says which fields it uses (`Needs`).
import type { Log } from '../../log/log.ts';
import type { History } from '../../model/checkpoint/history.ts';
import type { Fingerprint } from '../../model/file/file-state.ts';
import type { Manifest } from '../../model/file/manifest.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import type { Lacking } from '../../model/format/records.ts';
import type { Resources } from '../../model/format/resources.ts';
import type { Settings } from '../../model/format/settings.ts';
import type { PathMap, Paths } from '../../model/packed/packed-map.ts';
import type { RelPath } from '../../model/path.ts';
import type { WorkDir } from '../../native/beneath.ts';
import type { MountsBeneath } from '../../native/mounts.ts';
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

/** The process that this run belongs to: its launcher, or this process. */
export interface Caller {
  readonly env: NodeJS.ProcessEnv;
  /** The descriptor, in this process, that it writes its messages to. */
  readonly stderr: number;
}

export const OURSELVES: Caller = { env: process.env, stderr: 2 };

export interface Context {
  readonly settings: Settings;
  readonly scope: KeyScope;
  readonly manifest: Manifest;
  readonly store: Store;
  readonly root: WorkDir;
  /** As they were before the task. */
  readonly mounts: Pick<MountsBeneath, 'haveChangedAbove'>;
  readonly log: Log;
  readonly attempt: number;
  readonly runToken: string;
  readonly startedAt: string;
  /** See the attempt file. */
  readonly sealKey?: string | undefined;
  /**
   * Set if this attempt was begun before, by a sidecar that died or by `capture restore --handoff`. Its task may be
   * running.
   */
  readonly resumed: 'replaced' | 'handed-over' | undefined;
  /** Left for the next `capture watch` of this attempt; undefined below a launcher. */
  readonly handover: Handover | undefined;
  readonly history: History;
  readonly ledger: Ledger;
  readonly fence: Fence;
  readonly tidy: Tidy;
  /** The resources of this attempt that the replaced sidecar had recorded. */
  readonly usedBefore: Resources | undefined;
  /** Reads files, and sends them on behalf of this attempt. */
  readonly sender: Sender;
  /** Undefined if nothing is ever reclaimed. */
  readonly reclaimer: Reclaimer | undefined;
  /** Content that needs no push: stored results, and inputs that existed before the task started. */
  readonly baselines: Baselines;
  /** Declared files that existed before the task started, in their state then. */
  readonly inherited: PathMap<Fingerprint>;
  /** Directories of other users that could not be read before the task started, in their state then (lost+found). */
  readonly shut: Map<RelPath, Fingerprint>;
  /** What results lack because this attempt, or an earlier one, resumed from a checkpoint. */
  readonly lacking: readonly Lacking[];
  /** Shared by all tables that are keyed by path, because there may be very many paths. */
  readonly paths: Paths;
  /** Aborted when the sidecar gives everything up (fenced). */
  readonly signal: AbortSignal;
  /** Shared with other runs of this process. */
  readonly places: Places;
  readonly use: OwnUse;
  /** For commands that the user runs beside the task. */
  readonly caller: Caller;
  readonly progress: Progress;
  readonly outage: Outage;
  readonly now: () => number;
  readonly taskNews: TaskNews;
}

/** The fields of the context that one stage uses. */
export type Needs<Field extends keyof Context> = Pick<Context, Field>;
