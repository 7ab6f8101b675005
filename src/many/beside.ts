// What a runner has beside its tasks as long as they run: one sidecar for all of them, an eye on what killed launchers
// leave, and a number for each that runs.
import { adoptOrphans } from '../launch/leftovers.ts';
import { Seats } from './seats.ts';
import { openSharedSidecar, type SharedSidecar, type SharedSidecarOptions } from './shared-sidecar.ts';

export interface Beside {
  readonly sidecar: SharedSidecar;
  /** Running children that the runner started itself. */
  readonly ownChildren: Set<number>;
  readonly seats: Seats;
}

/** Runs `act` with all of it, and closes it after that, however it ended. */
export async function withSidecar<T>(
  options: Omit<SharedSidecarOptions, 'ownChildren'>,
  act: (beside: Beside) => Promise<T>,
): Promise<T> {
  const ownChildren = new Set<number>();
  // What a killed launcher leaves comes to us, also where we are process 1 of a container.
  const orphans = adoptOrphans(ownChildren);
  try {
    const sidecar = await openSharedSidecar({ ...options, ownChildren });
    try {
      return await act({ sidecar, ownChildren, seats: new Seats() });
    } finally {
      await sidecar.close();
    }
  } finally {
    orphans.close();
  }
}
