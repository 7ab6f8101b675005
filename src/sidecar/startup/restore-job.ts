// What everything that brings files before the task works with.
import type { Log } from '../../log/log.ts';
import type { History } from '../../model/checkpoint/history.ts';
import type { Manifest } from '../../model/file/manifest.ts';
import type { KeyScope } from '../../model/format/keys.ts';
import type { Settings } from '../../model/format/settings.ts';
import type { WorkDir } from '../../native/work-dir.ts';
import type { Store } from '../../store/contract/store.ts';
import type { Progress } from '../run/progress.ts';

export interface RestoreJob {
  readonly settings: Settings;
  readonly scope: KeyScope;
  readonly manifest: Manifest;
  readonly root: WorkDir;
  readonly store: Store;
  /** Where inputs are looked for first. */
  readonly from: Store;
  readonly history: History;
  readonly log: Log;
  readonly progress: Progress;
  readonly signal: AbortSignal;
}
