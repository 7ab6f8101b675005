// The commands that need no launcher, in a file of their own (build.mjs): a run never loads them.
export { openLog } from '../log/log.ts';
export { openStops } from '../sidecar/standalone/stops.ts';
export { watchAlone } from '../sidecar/standalone/standalone.ts';
export { describeFailure } from '../sidecar/run/failure.ts';
export { dryRun } from '../sidecar/startup/dry-run.ts';
export { handOver } from '../sidecar/startup/restore-handoff.ts';
export { restoreOnly } from '../sidecar/startup/restore-only.ts';
