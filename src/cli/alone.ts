// The commands that need no launcher, in a file of their own (build.mjs): a run never loads them.
export { openLog } from '../log.ts';
export { openStops } from '../sidecar/alone/stops.ts';
export { watchAlone } from '../sidecar/alone/watch-alone.ts';
export { describeFailure } from '../sidecar/failure.ts';
export { dryRun } from '../sidecar/start/dry-run.ts';
export { handOver } from '../sidecar/start/restore-handoff.ts';
export { restoreOnly } from '../sidecar/start/restore-only.ts';
