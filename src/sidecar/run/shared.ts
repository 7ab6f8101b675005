// What the runs of one process share. Runs that send to the same store in the same way share sockets and credentials,
// worker threads, places for pushes, and the link under --bandwidth. So a store that does not work holds up only the
// runs that use it. A sidecar of one run has everything for itself.
import type { Settings } from '../../model/format/settings.ts';
import { type Share, Shares } from '../../model/shares.ts';
import type { Pool } from '../../read/workers.ts';
import type { Connections } from '../../store/contract/driver.ts';
import type { LimitedLink } from '../../upload/bandwidth.ts';
import { SpareInstance } from '../../watch/spare-instance.ts';
import { Places } from './places.ts';

/** Shared by the runs that send to one store in the same way. */
export interface PushResources {
  readonly pool: Pool;
  readonly places: Places;
  readonly link: LimitedLink;
}

/** The part of the process's resources that one run has used. */
export interface OwnUse {
  /** CPU time: at each moment the run's share is the process's time divided by the number of runs. */
  cpuS(): number;
  /** The run's part of the process's memory now. */
  memoryPart(): number;
}

export interface SharedOptions {
  /** True if several runs come and go. Else there is one run, and it accounts for everything that the process uses. */
  readonly isMany: boolean;
}

export class Shared {
  readonly isMany: boolean;
  /** For runs that get no inotify instance of their own. */
  readonly spare: SpareInstance | undefined;
  /** By the settings of the store. */
  readonly connections: Connections = new Shares(async (opened) =>
    (await opened.catch(() => undefined))?.close(),
  );
  readonly #pushResources = new Shares<PushResources>(({ pool }) => pool.close());
  readonly #runs = new Set<RunUse>();

  constructor({ isMany }: SharedOptions) {
    this.isMany = isMany;
    this.spare = isMany ? new SpareInstance() : undefined;
  }

  /** For all runs that would open the same pool. */
  pushResources(settings: Settings, openPool: () => Pool): Share<PushResources> {
    const { to, workers, spoolDir, spoolLimitBytes, bandwidthBytes } = settings;
    const key = JSON.stringify([to, workers, spoolDir, spoolLimitBytes, bandwidthBytes]);
    return this.#pushResources.take(key, () => ({
      pool: openPool(),
      places: new Places(),
      link: { freeMs: 0 },
    }));
  }

  /** A run begins. Its use counts from now on or, if it is the only run, from the start of the process. */
  begin(): OwnUse & { end(): void } {
    this.#settle();
    const run = new RunUse(this.isMany ? cpuS() : 0);
    this.#runs.add(run);
    return {
      cpuS: () => {
        this.#settle();
        return run.usedS;
      },
      memoryPart: () => 1 / Math.max(1, this.#runs.size),
      end: () => {
        this.#settle();
        this.#runs.delete(run);
      },
    };
  }

  /** Accounts for the time up to now, before the number of runs changes. */
  #settle(): void {
    const nowS = cpuS();
    for (const run of this.#runs) run.settle(nowS, this.#runs.size);
  }
}

class RunUse {
  usedS = 0;
  #seenS: number;

  constructor(seenS: number) {
    this.#seenS = seenS;
  }

  settle(nowS: number, runs: number): void {
    this.usedS += (nowS - this.#seenS) / runs;
    this.#seenS = nowS;
  }
}

function cpuS(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
