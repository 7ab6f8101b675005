// The command line of the simulator.
import type { Plan } from './program/plan.ts';

export interface Arguments {
  readonly seconds: number;
  /** At most so many. */
  readonly schedules: number;
  /** The first. */
  readonly seed: number;
  /** From one to the next. */
  readonly step: number;
  /** Instead of that of a seed. */
  readonly plan: Plan | undefined;
  readonly isTraced: boolean;
  /** What fails is made small. */
  readonly shrinks: boolean;
  /** At the first failure. */
  readonly stops: boolean;
  /** One schedule. */
  readonly isAlone: boolean;
}

/** A seed, or a plan, without a time is run alone. */
export function readArguments(words: readonly string[]): Arguments {
  const valueOf = (name: string): string | undefined => {
    const at = words.indexOf(name);
    return at === -1 ? undefined : words[at + 1];
  };
  const [seconds, schedules, seed, plan] = ['--seconds', '--schedules', '--seed', '--plan'].map(valueOf);
  // Of the processes that share the work: which this is, and how many there are.
  const [nth = 0, step = 1] = (valueOf('--share') ?? '0/1').split('/').map(Number);
  const isTraced = words.includes('--trace');
  const isAlone = isTraced || plan !== undefined || (seed !== undefined && seconds === undefined);
  return {
    seconds: seconds === undefined && (isAlone || schedules !== undefined) ? Infinity : Number(seconds ?? 60),
    schedules:
      schedules === undefined ? (isAlone ? 1 : Infinity) : Math.ceil((Number(schedules) - nth) / step),
    seed: Number(seed ?? 1) + nth,
    step,
    plan: plan === undefined ? undefined : (JSON.parse(plan) as Plan),
    isTraced,
    shrinks: words.includes('--shrink'),
    stops: words.includes('--stop'),
    isAlone,
  };
}
