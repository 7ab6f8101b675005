// What the runs of one process share. Those that send to the same store in the same way share what leads there: sockets and
// credentials, worker threads, places for pushes, the link under --bandwidth. So a store that does not work holds up
// nobody but those who use it. A sidecar of one run has all of it for itself.
import type { Settings } from '../../model/format/settings.ts';
import { type Share, Shares } from '../../model/shares.ts';
import type { Pool } from '../../read/workers.ts';
import type { Connections } from '../../store/contract/driver.ts';
import type { LimitedLink } from '../../upload/bandwidth.ts';
import { SpareInstance } from '../../watch/spare-instance.ts';
import { Places } from './places.ts';

/** What those share that send to one store in one way. */
export interface Common {
  readonly pool: Pool;
  readonly places: Places;
  readonly link: LimitedLink;
}

/** What one run has used of the process. */
export interface OwnUse {
  /** CPU time: of each moment its part, as one of so many. */
  cpuS(): number;
  /** Its part of the process's memory now. */
  memoryPart(): number;
}

export interface SharedOptions {
  /** Several runs come and go; else there is one, and all that the process uses is its. */
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
  readonly #commons = new Shares<Common>(({ pool }) => pool.close());
  readonly #runs = new Set<RunUse>();

  constructor({ isMany }: SharedOptions) {
    this.isMany = isMany;
    this.spare = isMany ? new SpareInstance() : undefined;
  }

  /** Of all that would open the same pool. */
  common(settings: Settings, openPool: () => Pool): Share<Common> {
    const { to, workers, spoolDir, spoolLimitBytes, bandwidthBytes } = settings;
    const key = JSON.stringify([to, workers, spoolDir, spoolLimitBytes, bandwidthBytes]);
    return this.#commons.take(key, () => ({ pool: openPool(), places: new Places(), link: { freeMs: 0 } }));
  }

  /** A run begins. What it has used counts from now on, or if it is the only one, from the start of the process. */
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

  /** Until now they were as many as they are. */
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
