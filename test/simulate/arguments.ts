// The command line of the simulator.
import type { Plan } from './program/plan.ts';

export interface Arguments {
  readonly seconds: number;
  /** The most schedules to try. */
  readonly schedules: number;
  /** The first seed. */
  readonly seed: number;
  /** The step from one seed to the next. */
  readonly step: number;
  /** A plan to run instead of one from a seed. */
  readonly plan: Plan | undefined;
  /** Tries each plan in found/ once. */
  readonly triesFound: boolean;
  readonly isTraced: boolean;
  /** Shrinks a schedule that fails. */
  readonly shrinks: boolean;
  /** Stops at the first failure. */
  readonly stops: boolean;
  /** Runs only one schedule. */
  readonly isAlone: boolean;
}

/** A seed or a plan without a time is run alone. */
export function readArguments(words: readonly string[]): Arguments {
  const valueOf = (name: string): string | undefined => {
    const at = words.indexOf(name);
    return at === -1 ? undefined : words[at + 1];
  };
  const [seconds, schedules, seed, plan] = ['--seconds', '--schedules', '--seed', '--plan'].map(valueOf);
  // If several processes share the work: the number of this one, and how many there are.
  const [nth = 0, step = 1] = (valueOf('--share') ?? '0/1').split('/').map(Number);
  const triesFound = words.includes('--found');
  const isTraced = words.includes('--trace');
  const isAlone =
    isTraced || plan !== undefined || (seed !== undefined && (seconds ?? schedules) === undefined);
  return {
    seconds: Number(seconds ?? (isAlone || triesFound || schedules !== undefined ? Infinity : 60)),
    schedules:
      schedules === undefined ? (isAlone ? 1 : Infinity) : Math.ceil((Number(schedules) - nth) / step),
    seed: (triesFound ? 0 : Number(seed ?? 1)) + nth,
    step,
    plan: plan === undefined ? undefined : (JSON.parse(plan) as Plan),
    triesFound,
    isTraced,
    shrinks: words.includes('--shrink'),
    stops: words.includes('--stop'),
    isAlone,
  };
}
