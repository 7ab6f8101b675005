// Plans in which something was found once, with other times: what a change of the sources moves by a few milliseconds
// is still met.
import { Random } from '../machine/random.ts';
import type { Plan } from './plan.ts';

/** Times that belong to others: a kernel's tick, and the longest end of a shell of which capture knows. */
const FIXED = new Set(['tickMs', 'shellMs']);

export function variantOf(plan: Plan, seed: number): Plan {
  const random = new Random(seed ^ 0x7a61);
  const most = random.pick([0.02, 0.1, 0.5]);
  const isTime = (name: string, value: unknown): value is number =>
    typeof value === 'number' && (name.endsWith('Ms') || name === 'ms') && !FIXED.has(name);
  const text = JSON.stringify(plan, (name: string, value: unknown) =>
    isTime(name, value) && random.chance(0.7)
      ? Math.max(value && 1, Math.round(value * (1 + most * (2 * random.next() - 1))))
      : value,
  );
  return { ...(JSON.parse(text) as Plan), seed, kind: 'variant' };
}
