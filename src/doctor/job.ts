// What a run would find out about its job here: the scheduler, index and attempt, the grace after SIGTERM, and the
// source of notices.
import { isMistake } from '../model/errors.ts';
import { formatMs } from '../model/units.ts';
import type { CloudProbe } from '../notices/cloud-probe.ts';
import { askProgram } from '../native/ask-program.ts';
import { defaultGraceMs, graceOf } from '../scheduler/grace.ts';
import { identify } from '../scheduler/identity.ts';
import { type SlurmConfig, slurmConfig } from '../scheduler/slurm-answers.ts';
import { parallelStep } from '../scheduler/parallel-step.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

export interface Job {
  readonly env: NodeJS.ProcessEnv;
  readonly readText: (file: string) => string;
  readonly probeCloud: () => Promise<CloudProbe>;
  /** In a job of Slurm. Undefined if it does not answer. */
  readonly askSlurm: () => Promise<SlurmConfig | undefined>;
}

export async function examineScheduler({ env, readText, askSlurm }: Job): Promise<Finding> {
  const found = identify(env, undefined, readText);
  if (isMistake(found)) return fail('scheduler', found.message, found.hint);
  const inStep = parallelStep(env, './task');
  if (inStep !== undefined) return fail('scheduler', inStep.message, inStep.hint);
  const { engine, index, source } = found;
  const graceMs = defaultGraceMs(env);
  const facts = {
    graceMs,
    ...(engine === undefined ? {} : { engine: engine.name }),
    ...(index === undefined ? {} : { index }),
    ...(engine?.attempt === undefined ? {} : { attempt: engine.attempt.value }),
  };
  const says = [
    engine?.name ?? 'none that capture knows',
    index === undefined ? 'no array here: names in the store get the index 0' : `index ${index} (${source})`,
    ...(engine?.attempt === undefined ? [] : [`${engine.attempt.source} ${engine.attempt.value}`]),
    `${formatMs(graceMs)} from SIGTERM to the end, unless --grace says otherwise`,
  ].join('; ');
  const killWaitMs = engine?.name === 'Slurm' ? (await askSlurm())?.killWaitMs : undefined;
  const siteMs = killWaitMs === undefined ? graceMs : graceOf(killWaitMs);
  if (siteMs === graceMs) return ok('scheduler', says, facts);
  const about = `${says}; but this Slurm kills ${formatMs(killWaitMs ?? 0)} after SIGTERM (KillWait)`;
  const mend = `--grace ${Math.max(1, Math.floor(siteMs / 1000))}s, in your jobs or as CAPTURE_GRACE`;
  return warn('scheduler', about, mend, facts);
}

/** In a job of Slurm, `scontrol show config`. */
export async function askSlurm(
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<SlurmConfig | undefined> {
  const asked = askProgram('scontrol', ['show', 'config'], { env, signal, withinMs: SLURM_WITHIN_MS });
  return asked.then(slurmConfig, () => undefined);
}

const SLURM_WITHIN_MS = 10_000;

export async function examineNotices({ probeCloud: audible }: Job): Promise<Finding> {
  const found = await audible();
  switch (found.kind) {
    case 'no-cloud':
      return ok('notices', 'no cloud here announces a stop: SIGTERM is the first sign of a stop');
    case 'heard':
      return ok('notices', `${found.cloud} answers: a run learns when this machine will be taken away`, {
        cloud: found.cloud,
      });
    case 'slow':
      return warn(
        'notices',
        `${found.cloud} has not answered yet`,
        "try again in two minutes: Azure's first answer takes so long",
        { cloud: found.cloud },
      );
    case 'silent':
      return warn(
        'notices',
        found.why,
        found.hint ?? '--notice file:<path>, or a signal before the end (--notice-on): docs/preemption.md',
        { cloud: found.cloud },
      );
  }
}
