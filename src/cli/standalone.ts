// The commands that need no launcher. They are a file of their own in dist/ (build.mjs), which a run never loads.
export { openLog } from '../log/log.ts';
export { prepareMd5 } from '../model/md5.ts';
export { openStops } from '../native/stops.ts';
export { runStandalone } from '../sidecar/standalone/standalone.ts';
export { describeFailure } from '../sidecar/run/failure.ts';
export { dryRun, type DryRunLine } from '../sidecar/startup/dry-run.ts';
export { handOver, restoreOnly } from '../sidecar/startup/restore-only.ts';
