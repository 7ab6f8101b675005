// The commands that need no launcher. They are a separate file in dist/ (build.mjs), which a run never loads.
export { prepareMd5 } from '../model/md5.ts';
export { runStandalone } from '../sidecar/standalone/standalone.ts';
export { dryRun, type DryRunLine } from '../sidecar/startup/dry-run.ts';
export { handOver, restoreOnly } from '../sidecar/startup/restore-only.ts';
