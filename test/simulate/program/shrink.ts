// Makes a failing schedule smaller: leaves out one part after the other, as long as the same rule is still broken.
import { CALM } from '../store/network.ts';
import { type AttemptPlan, isWhole, type Plan, type Round, type Write } from './plan.ts';

/** True if the plan still fails in the same way. */
export type StillFails = (plan: Plan) => Promise<boolean>;

/** The smallest plan found in `mostTries`. */
export async function shrink(plan: Plan, stillFails: StillFails, mostTries = 400): Promise<Plan> {
  let smallest = plan;
  let tries = 0;
  for (let isSmaller = true; isSmaller && tries < mostTries;) {
    isSmaller = false;
    for (const smaller of smallerThan(smallest)) {
      if ((tries += 1) > mostTries) break;
      if (!(await stillFails(smaller))) continue;
      smallest = smaller;
      isSmaller = true;
      break;
    }
  }
  return smallest;
}

/** The largest steps first. */
function* smallerThan(plan: Plan): Generator<Plan> {
  for (const attempts of without(plan.attempts)) yield { ...plan, attempts };
  for (const rounds of without(plan.rounds)) if (rounds.length > 0) yield { ...plan, rounds };
  for (const files of without(plan.files)) if (files.length > 0) yield withFiles(plan, files);
  yield* attemptsOf(plan);
  for (const options of without(plan.options)) if (options.length % 2 === 0) yield { ...plan, options };
  yield* calmer(plan);
  yield* plainer(plan);
  yield* roundsOf(plan);
}

/** The lists without one half, one quarter, ..., one item. */
function* without<T>(items: readonly T[]): Generator<readonly T[]> {
  for (let size = Math.ceil(items.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let at = 0; at < items.length; at += size) yield items.toSpliced(at, size);
}

function withFiles(plan: Plan, files: Plan['files']): Plan {
  const names = new Set(files.map(({ name }) => name));
  const rounds = plan.rounds.map((round) => ({
    ...round,
    writes: round.writes.filter(({ file }) => names.has(file)),
  }));
  return { ...plan, files, rounds };
}

function* attemptsOf(plan: Plan): Generator<Plan> {
  for (const [at, attempt] of plan.attempts.entries()) {
    const put = (next: AttemptPlan): Plan => ({ ...plan, attempts: plan.attempts.with(at, next) });
    for (const faults of without(attempt.faults)) yield put({ ...attempt, faults });
  }
}

function* calmer(plan: Plan): Generator<Plan> {
  const { weather } = plan;
  for (const name of Object.keys(CALM) as (keyof typeof CALM)[])
    if (JSON.stringify(weather[name]) !== JSON.stringify(CALM[name]))
      yield { ...plan, weather: { ...weather, [name]: CALM[name] } };
}

function* plainer(plan: Plan): Generator<Plan> {
  if (plan.skipsPresent === true) yield { ...plan, skipsPresent: false };
  else if (plan.sameWorkdir) yield { ...plan, sameWorkdir: false };
  if (plan.putsTimesBack === true) yield { ...plan, putsTimesBack: false };
  if (plan.returns === true) yield { ...plan, returns: false };
  if (!plan.honoursIfMatch) yield { ...plan, honoursIfMatch: true };
  if (plan.directory !== undefined) yield { ...plan, directory: undefined };
  if (plan.shellMs !== undefined) yield { ...plan, shellMs: undefined };
  if (plan.rotates > 0) yield { ...plan, rotates: 0 };
  if (plan.mostQueuedEvents < 16_384) yield { ...plan, mostQueuedEvents: 16_384 };
  for (const [at, file] of plan.files.entries()) {
    if (file.fillBytes > 0) yield { ...plan, files: plan.files.with(at, { ...file, fillBytes: 0 }) };
    if (file.idiom !== 'in-place')
      yield { ...plan, files: plan.files.with(at, { ...file, idiom: 'in-place' }) };
  }
}

function* roundsOf(plan: Plan): Generator<Plan> {
  for (const [at, round] of plan.rounds.entries()) {
    const put = (next: Round): Plan => ({ ...plan, rounds: plan.rounds.with(at, next) });
    for (const writes of without(round.writes))
      if (isWhole(writes, plan) || !isWhole(round.writes, plan)) yield put({ ...round, writes });
    if (round.flush === true) yield put({ ...round, flush: false });
    for (const [n, write] of round.writes.entries())
      for (const next of plainerWrites(write)) yield put({ ...round, writes: round.writes.with(n, next) });
  }
}

function* plainerWrites(write: Write): Generator<Write> {
  if (write.versions > 1) yield { ...write, versions: 1 };
  if (write.child === true) yield { ...write, child: false };
  if (write.daemon === true) yield { ...write, daemon: false };
  if (write.openMs > 0) yield { ...write, openMs: 0 };
}
