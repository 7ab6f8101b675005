// Warnings about options that are allowed, but probably a mistake. Pure. Each warning is reported once, and the run
// starts all the same.
import type { Mistake } from '../model/errors.ts';
import { SHIM_VARIABLES } from '../launch/inherited.ts';
import { signalOfStatus } from '../model/exit-status.ts';
import type { Settings } from '../model/format/settings.ts';
import { nearestWord } from '../model/nearest.ts';
import { showPath } from '../model/path.ts';
import { slurmJob, waitingBatchShell } from '../scheduler/slurm-job.ts';
import { storeDirectory } from '../store/url.ts';
import type { Line } from './command.ts';
import { OF_MANY } from './job/keys.ts';
import { RUN_OPTIONS } from './options.ts';
import type { Outside } from './options/outside.ts';
import { CONFIG_VARIABLE } from './options/defaults.ts';
import { envNameOf, type RunName } from './options/spec.ts';

interface RunLine extends Pick<Line, 'given' | 'env'> {
  readonly settings: Settings;
  readonly command: RunName;
  readonly outside: Pick<Outside, 'parent'>;
}

export function warningsOf(run: RunLine): readonly Mistake[] {
  return [
    ...unkept(run),
    ...mistypedVariables(run.env),
    ...uncheckedCertificates(run.env),
    ...waitingShell(run),
    ...trustedSignals(run),
  ];
}

/** With this variable Node accepts any certificate (tls.connect, `rejectUnauthorized`). */
export function uncheckedCertificates(env: NodeJS.ProcessEnv): readonly Mistake[] {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return [];
  const message =
    'NODE_TLS_REJECT_UNAUTHORIZED=0: no certificate is checked, so others on the way can read and change what is sent';
  const hint =
    'unset it, and name the certificate authority: AWS_CA_BUNDLE for the store, NODE_EXTRA_CA_CERTS for all';
  return [{ message, hint }];
}

/** The task's output may be lost: nothing is declared, or the store does not last. */
function unkept({ settings, command, given }: RunLine): readonly Mistake[] {
  const { results, checkpoints, inputs, companions } = settings.manifest;
  const declared = [...results, ...checkpoints, ...inputs, ...companions];
  // A restore needs no patterns, because the record of the stored checkpoint names its files.
  if (declared.length === 0 && command !== 'restore') {
    const hint = "--results 'out/*.dat' --checkpoints state.chk";
    return [{ message: 'nothing is declared: nothing is kept', hint }];
  }
  if (!settings.perishableStore) return [];
  const dir = showPath(storeDirectory(settings.to.url) ?? settings.to.url);
  const why = given.has('to')
    ? `the store ${dir} is in the work directory, and is lost with it`
    : `no --to is given: the store is ${dir}, which is lost with a spot instance`;
  return [{ message: `${why}: nothing is reclaimed`, hint: '--to s3://bucket/prefix' }];
}

function waitingShell({ command, env, outside }: RunLine): readonly Mistake[] {
  if (command !== 'run' || slurmJob(env) === undefined) return [];
  return [waitingBatchShell(outside.parent())].filter((warning) => warning !== undefined);
}

/** 137 is a shell's status for SIGKILL: files that were cut short by it would count as whole. */
function trustedSignals({ settings, given }: RunLine): readonly Mistake[] {
  const { trustedStatuses, againStatuses } = settings.endRules;
  const named = [
    ...trustedStatuses.map((status) => ({ status, source: given.get('trust-exit')?.source })),
    ...againStatuses.map((status) => ({ status, source: given.get('again-status')?.source })),
  ];
  const hint = 'let the task close its files and end with a status of its own, 1 to 125';
  return named.flatMap(({ status, source }) => {
    const signal = signalOfStatus(status);
    if (signal === undefined) return [];
    const message = `${source} ${status} is also what a task ends with that signal ${signal} has killed: what this cut short would count as whole`;
    return [{ message, hint }];
  });
}

/** Variables that look like a mistyped one of ours. Without a warning nobody would notice that they have no effect. */
function mistypedVariables(env: NodeJS.ProcessEnv): readonly Mistake[] {
  const ours = RUN_OPTIONS.map(({ name }) => envNameOf(name));
  // Many user profiles contain CAPTURE_QUEUE.
  const known = new Set<string>([
    ...ours,
    ...OF_MANY.map(({ name }) => envNameOf(name)),
    ...SHIM_VARIABLES,
    CONFIG_VARIABLE,
  ]);
  const behind = (name: string): string => name.slice('CAPTURE_'.length);
  return Object.keys(env)
    .filter((name) => name.startsWith('CAPTURE_') && !known.has(name))
    .flatMap((name) => {
      const nearest = nearestWord(behind(name), ours.map(behind));
      const message = `${showPath(name)} belongs to no option, and is ignored`;
      return nearest === undefined ? [] : [{ message, hint: `CAPTURE_${nearest}` }];
    });
}
