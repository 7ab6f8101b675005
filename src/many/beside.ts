// What a runner has beside its tasks as long as they run: one sidecar for all of them, and an eye on what killed launchers
// leave. Both know which children are the runner's own.
import { adoptOrphans } from '../launch/leftovers.ts';
import { openSharedSidecar, type SharedSidecar, type SharedSidecarOptions } from './shared-sidecar.ts';

export interface Beside {
  readonly sidecar: SharedSidecar;
  /** Running children that the runner started itself. */
  readonly ownChildren: Set<number>;
}

/** Runs `act` with both, and closes them after it, however it ended. */
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
      return await act({ sidecar, ownChildren });
    } finally {
      await sidecar.close();
    }
  } finally {
    orphans.close();
  }
}
