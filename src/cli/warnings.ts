// What is allowed, but probably not meant. Pure. Each warning is said once, and the run starts all the same.
import type { Mistake } from '../model/errors.ts';
import { signalOfStatus } from '../model/exit-status.ts';
import type { Settings } from '../model/format/settings.ts';
import { showPath } from '../model/path.ts';
import { slurmJob, waitingBatchShell } from '../scheduler/slurm-job.ts';
import { storeDirectory } from '../store/url.ts';
import { mistypedVariables } from './env.ts';
import type { CommandName, GivenOptions } from './options.ts';
import type { Outside } from './options/outside.ts';

interface WarningsInput {
  readonly settings: Settings;
  readonly command: CommandName;
  readonly given: GivenOptions;
  readonly env: NodeJS.ProcessEnv;
  readonly outside: Pick<Outside, 'parent'>;
}

export function warningsOf(input: WarningsInput): readonly Mistake[] {
  return [
    ...unkept(input),
    ...mistypedVariables(input.env),
    ...uncheckedCertificates(input.env),
    ...waitingShell(input),
    ...trustedSignals(input),
  ];
}

/** Node then trusts any certificate (tls.connect, `rejectUnauthorized`). */
export function uncheckedCertificates(env: NodeJS.ProcessEnv): readonly Mistake[] {
  if (env['NODE_TLS_REJECT_UNAUTHORIZED'] !== '0') return [];
  return [
    {
      message:
        'NODE_TLS_REJECT_UNAUTHORIZED=0: no certificate is checked, so others on the way can read and change what is sent',
      hint: 'unset it, and name the certificate authority: AWS_CA_BUNDLE for the store, NODE_EXTRA_CA_CERTS for all',
    },
  ];
}

/** What the task makes may be lost: nothing is declared, or the store does not last. */
function unkept({ settings, command, given }: WarningsInput): readonly Mistake[] {
  const { results, checkpoints, inputs, companions } = settings.manifest;
  const declared = results.length + checkpoints.length + inputs.length + companions.length;
  // A restore brings the stored checkpoint all the same: its record names the files.
  if (declared === 0 && command !== 'restore') {
    return [
      {
        message: 'nothing is declared: nothing is kept',
        hint: "--results 'out/*.dat' --checkpoints state.chk",
      },
    ];
  }
  if (!settings.perishableStore) return [];
  const dir = showPath(storeDirectory(settings.to.url) ?? settings.to.url);
  const why = given.has('to')
    ? `the store ${dir} stands in the work directory and goes with it`
    : `no --to is given: the store is ${dir}, which goes away with a spot instance`;
  return [
    {
      message: `${why}: nothing is reclaimed`,
      hint: '--to s3://bucket/prefix',
    },
  ];
}

function waitingShell({ command, env, outside }: WarningsInput): readonly Mistake[] {
  if (command !== 'run' || slurmJob(env) === undefined) return [];
  const warning = waitingBatchShell(outside.parent());
  return warning === undefined ? [] : [warning];
}

/** 137 is a shell's word for SIGKILL: what that has cut short would count as whole. */
function trustedSignals({ settings, given }: WarningsInput): readonly Mistake[] {
  const { trustedStatuses, againStatuses } = settings.endRules;
  const named = [
    ...trustedStatuses.map((status) => ({ status, source: given.get('trust-exit')?.source })),
    ...againStatuses.map((status) => ({ status, source: given.get('again-status')?.source })),
  ];
  return named.flatMap(({ status, source }) => {
    const signal = signalOfStatus(status);
    if (signal === undefined) return [];
    return [
      {
        message: `${source} ${status} is also what a task ends with that signal ${signal} has killed: what this cut short would count as whole`,
        hint: 'let the task close its files and end with a status of its own, 1 to 125',
      },
    ];
  });
}
