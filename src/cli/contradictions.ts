// Options that are each right and cannot stand together. Pure.
import { parsePattern } from '../model/file/glob.ts';
import type { Settings } from '../model/format/settings.ts';
import type { Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';
import { storeDirectory } from '../store/url.ts';
import type { GivenOptions } from './command-line.ts';
import { noticeContradictions } from './notice-options.ts';

export function contradictions(given: GivenOptions, settings: Settings): readonly Mistake[] {
  return [
    ...reclaim(given, settings),
    ...sharedWorkdir(given, settings),
    ...storeIsWorkdir(settings),
    ...verifyAt(given),
    ...statuses(given, settings),
    ...noticeContradictions(given),
    ...requeue(given, settings),
    ...maxAttempts(given, settings),
  ];
}

function requeue(given: GivenOptions, settings: Settings): readonly Mistake[] {
  const engine = given.get('requeue');
  if (engine?.values.at(-1) !== 'slurm' || settings.requeue !== undefined) return [];
  return [
    {
      message: `${engine.source} slurm: this is no job of Slurm (SLURM_JOB_ID is not set)`,
      hint: `leave out ${engine.source}, or submit a job script with sbatch`,
    },
  ];
}

/** The task's own status must not ask to be run again, or nothing would ever end it. */
function maxAttempts(
  given: GivenOptions,
  { endRules, preemptedStatus, maxAttempts: most }: Settings,
): readonly Mistake[] {
  if (most === undefined || !endRules.againStatuses.includes(preemptedStatus)) return [];
  return [
    {
      message: `${given.get('max-attempts')?.source} ${most}: it would end with ${preemptedStatus} (${given.get('again-status')?.source}), which asks to be run again`,
      hint: `let the task say so with another status: --again-status ${preemptedStatus + 10}`,
    },
  ];
}

function verifyAt(given: GivenOptions): readonly Mistake[] {
  const at = given.get('verify-at');
  if (at === undefined || given.has('verify-checkpoint')) return [];
  return [
    {
      message: `${at.source} ${showPath(at.values.at(-1) ?? '')}: there is nothing to verify with`,
      hint: "--verify-checkpoint './check state.chk'",
    },
  ];
}

/** What asks to be run again has closed its files itself; what only has closed its files passes through. */
function statuses(given: GivenOptions, { endRules }: Settings): readonly Mistake[] {
  const both = endRules.againStatuses.find((status) => endRules.trustedStatuses.includes(status));
  if (both === undefined) return [];
  return [
    {
      message: `status ${both} is named by ${given.get('again-status')?.source} and by ${given.get('trust-exit')?.source}`,
      hint: 'leave out the second: what asks to be run again is trusted already',
    },
  ];
}

function reclaim(given: GivenOptions, settings: Settings): readonly Mistake[] {
  const mode = given.get('reclaim');
  const asked = mode?.values.at(-1);
  if (mode === undefined || asked === 'never') return [];
  if (given.has('keep')) {
    return [
      {
        message: `${mode.source} ${asked ?? ''} and --keep contradict each other`,
        hint: 'leave one of them out',
      },
    ];
  }
  if (settings.sharedWorkdir) {
    return [
      {
        message: `${mode.source} ${asked ?? ''}: in a shared work directory nothing is reclaimed`,
        hint: `leave out ${mode.source}, or give each task a work directory of its own`,
      },
    ];
  }
  if (asked === 'now' && settings.perishableStore) {
    return [
      {
        message: `${mode.source} now: nothing is reclaimed for a store that goes with the work directory`,
        hint: '--to s3://bucket/prefix, or a directory on another disk',
      },
    ];
  }
  return [];
}

/** Only exact names tell whose file it is when several tasks write in one directory. */
function sharedWorkdir(
  given: GivenOptions,
  { sharedWorkdir: shared, manifest }: Settings,
): readonly Mistake[] {
  if (!shared) return [];
  const wide = [...manifest.results, ...manifest.checkpoints, ...manifest.companions].find(
    (pattern) => pattern.endsWith('/') || parsePattern(pattern).kind === 'glob',
  );
  if (wide === undefined) return [];
  return [
    {
      message: `${given.get('shared-workdir')?.source ?? ''}: '${showPath(wide)}' would also match the files of other tasks`,
      hint: 'name the files exactly, or give each task a work directory of its own',
    },
  ];
}

function storeIsWorkdir({ to, workdir }: Settings): readonly Mistake[] {
  if (storeDirectory(to.url) !== workdir) return [];
  return [
    {
      message: `the store is the work directory itself (${showPath(workdir)})`,
      hint: 'name another directory with --to',
    },
  ];
}
