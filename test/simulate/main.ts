// `npm run simulate`: tries schedules, one seed after the other, until the time is up. Then prints what it found, and
// how often each kind of event happened. The last line is for scripts.
import type { Arguments } from './arguments.ts';
import { makePlan } from './program/make-plan.ts';
import { isWhole, type Plan } from './program/plan.ts';
import { shrink } from './program/shrink.ts';
import { variantOf } from './program/variant.ts';
import { type Outcome, runSchedule } from './run/schedule.ts';
import { CALM } from './store/network.ts';

/** The plans in found/; the bundle holds them. */
declare const FOUND_PLANS: readonly Plan[];

/** Those whose rounds tell one from another by what they write, and not by their times alone. */
const VARIED = FOUND_PLANS.filter((plan) => plan.rounds.every(({ writes }) => isWhole(writes, plan)));

/** One seed in so many is a variant of a plan in which something was found. */
const VARIANT_EACH = 5;

const clock = globalThis.performance;
const { process: real } = globalThis;

function out(line: string): void {
  real.stdout.write(`${line}\n`);
}

/** Counts of what was tried. */
interface Tally {
  schedules: number;
  events: number;
  virtualMs: number;
  /** CPU time, s. */
  cpuS: number;
  readonly failed: Map<number, string>;
  /** How often each kind of event happened, and each rule was broken. */
  readonly counts: Map<string, number>;
}

export { readArguments } from './arguments.ts';

/** Runs a schedule for each kind of store, so that what modules cache on first use is there from the first seed on. */
export async function warmUp(): Promise<void> {
  const [file] = [{ name: 'a', role: 'member', idiom: 'in-place', fillBytes: 300_000 }] as const;
  const plain = { attempts: [], rotates: 0, weather: CALM, files: [file] };
  for (const store of ['s3', 'file'] as const) await runSchedule({ ...makePlan(0), ...plain, store });
}

function planOf(seed: number): Plan {
  const found = seed % VARIANT_EACH === 0 ? VARIED[(seed / VARIANT_EACH) % VARIED.length] : undefined;
  return found === undefined ? makePlan(seed) : variantOf(found, seed);
}

/** The rule that the schedule of this seed breaks; undefined if it breaks none. */
export async function ruleBrokenBy(seed: number): Promise<string | undefined> {
  const { findings } = await runSchedule(planOf(seed));
  return findings[0]?.rule;
}

/** Tries schedules until the time is up, and prints what it finds. */
export async function search(args: Arguments): Promise<Tally> {
  const { seconds, schedules, seed: first, step, plan: given, triesFound } = args;
  // Only people read stack traces, and each costs more than a system call.
  if (!args.isTraced) Error.stackTraceLimit = 0;
  await warmUp();
  const tally: Tally = {
    schedules: 0,
    events: 0,
    virtualMs: 0,
    cpuS: 0,
    failed: new Map(),
    counts: new Map(),
  };
  const cpuBefore = real.cpuUsage();
  const untilMs = clock.now() + seconds * 1000;
  for (let seed = first; tally.schedules < schedules && clock.now() < untilMs; seed += step) {
    const plan = given ?? (triesFound ? FOUND_PLANS[seed] : planOf(seed));
    if (plan === undefined) break;
    if (args.isTraced) out(JSON.stringify(plan));
    const outcome = await runSchedule(plan, args.isTraced ? out : undefined);
    note(tally, plan, outcome);
    tell(plan, outcome, args.isAlone);
    const [finding] = outcome.findings;
    if (finding !== undefined && args.shrinks) await tellSmallest(plan, finding.rule);
    if (finding !== undefined && args.stops) break;
  }
  tally.cpuS = real.cpuUsage(cpuBefore).user / 1e6;
  return tally;
}

function note(tally: Tally, { seed }: Plan, { findings, counts, events, virtualMs }: Outcome): void {
  tally.schedules += 1;
  tally.events += events;
  tally.virtualMs += virtualMs;
  const add = (what: string, times: number): void =>
    void tally.counts.set(what, (tally.counts.get(what) ?? 0) + times);
  for (const [what, times] of counts) add(what, times);
  const [first] = findings;
  if (first === undefined) return;
  tally.failed.set(seed, first.rule);
  add(`FOUND: ${first.rule}`, 1);
}

function tell({ seed, kind, command }: Plan, { findings }: Outcome, all: boolean): void {
  for (const { rule, what, atMs } of findings.slice(0, all ? 20 : 1))
    out(`seed ${seed} (${kind}, ${command}): ${rule} at ${(atMs / 1000).toFixed(3)} s: ${what}`);
}

async function tellSmallest(plan: Plan, rule: string): Promise<void> {
  const smallest = await shrink(plan, async (smaller) => {
    const { findings } = await runSchedule(smaller);
    return findings[0]?.rule === rule;
  });
  out(`  smallest: --plan '${JSON.stringify(smallest)}'`);
}

/** Prints the counts; the last line is for scripts. True if nothing was found. */
export function report(tallies: readonly Tally[]): boolean {
  const sum = (of: (one: Tally) => number): number => tallies.reduce((all, one) => all + of(one), 0);
  const counts = new Map<string, number>();
  for (const [what, times] of tallies.flatMap((one) => [...one.counts]))
    counts.set(what, (counts.get(what) ?? 0) + times);
  for (const [what, times] of [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1)))
    out(`${String(times).padStart(10)}  ${what}`);
  out(
    `${(sum((one) => one.virtualMs) / 3_600_000).toFixed(1)} virtual hours, ${sum((one) => one.events)} events`,
  );
  const failed = tallies.flatMap((one) => [...one.failed]).toSorted(([a], [b]) => a - b);
  const seeds = failed.map(([seed, rule]) => `${seed} (${rule})`).join(' ');
  const [schedules, cpuS] = [sum((one) => one.schedules), sum((one) => one.cpuS)];
  out(
    `${schedules} schedules, ${(schedules / cpuS).toFixed(0)} a second of CPU time, ${failed.length} failed${seeds === '' ? '' : `: ${seeds}`}`,
  );
  return failed.length === 0;
}
