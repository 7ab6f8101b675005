// The inputs of the end of a run, and how the run ended in the terms of model/outcome/verdict and model/file/suspect:
// how the task ended, whether its closes can be trusted, and whether the required files are stored. Decides nothing.
import { EXIT, signalOfStatus } from '../../model/exit-status.ts';
import { type TaskEnding, isSuspect } from '../../model/file/suspect.ts';
import type { TaskEnd, Usage } from '../../model/format/messages.ts';
import type { OutOfMemory } from '../../model/format/out-of-memory.ts';
import type { LeftFile } from '../../model/format/records.ts';
import type { EndRules } from '../../model/format/settings.ts';
import {
  attemptsInVain,
  closedItsFiles,
  isComplete,
  LAUNCHER_LOST,
  type Outcome,
  statusOfTask,
  type TaskOutcome,
  unmatched,
  type Verdict,
} from '../../model/outcome/verdict.ts';
import type { RelPath } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { numberOfSignal } from '../../native/ended.ts';
import type { Watcher } from '../../watch/watching.ts';
import type { Checkpoints } from '../checkpoints/checkpoints.ts';
import type { Companions } from '../checkpoints/companions.ts';
import type { Generations } from '../checkpoints/generations.ts';
import type { OpenResults } from '../checkpoints/open-results.ts';
import type { Gauges } from '../disk/gauges.ts';
import type { Reclaims } from '../disk/reclaims.ts';
import type { ResourceWatch } from '../disk/resources.ts';
import type { Outputs } from '../output/outputs.ts';
import type { Files } from '../queue/files.ts';
import type { Doubt } from '../queue/partials.ts';
import type { Recorder } from '../queue/recorder.ts';
import type { Results } from '../queue/results.ts';
import type { Context, Needs } from '../run/context.ts';
import type { AskedToStop } from './asked-to-stop.ts';
import type { DrainWindow } from './drain-window.ts';

/** The stages and objects that the end of a run works with. */
export interface FinishParts {
  readonly context: Context;
  readonly files: Files;
  readonly results: Results;
  readonly checkpoints: Checkpoints;
  readonly companions: Companions;
  readonly generations: Generations;
  readonly recorder: Recorder;
  readonly reclaims: Reclaims;
  readonly resources: ResourceWatch;
  readonly gauges: Gauges;
  readonly watcher: Watcher;
  readonly openResults: OpenResults;
  /** The task's stdout and stderr. */
  readonly outputs: Outputs;
  /** Results that are pushed to their partial key from now on, and why. */
  readonly suspects: Map<RelPath, Doubt>;
  readonly window: DrainWindow;
  /** Who asked the task to end. */
  readonly asked: AskedToStop;
}

/** What is known about how the task ended. */
export interface RunEnd {
  /** Undefined if it is unknown how the task ended (`watch`). */
  readonly end: TaskEnd | undefined;
  /** How it ended as far as anybody saw, if `end` does not say it: its last closes are judged by this. */
  readonly seen?: TaskEnd | undefined;
  readonly preempted: boolean;
  readonly signalledAtMs: number | undefined;
  /** When we are killed, ms since the epoch, if that is known. */
  readonly deadlineMs: number | undefined;
  /** When processes were stopped that the task left behind and that still wrote a declared file. */
  readonly writersStoppedAtMs?: number | undefined;
  /** Why the task did not end in the usual way, for the record. */
  readonly reason?: string;
  /** The resources that the task has used, as counted by the kernel. */
  readonly usage?: Usage | undefined;
  /** Processes that the kernel killed for lack of memory while the task ran. */
  readonly outOfMemory?: OutOfMemory | undefined;
}

type OutcomeContext = Needs<'settings' | 'manifest' | 'attempt' | 'history' | 'ledger'>;

type OutcomeParts = Pick<FinishParts, 'context' | 'results' | 'files' | 'suspects'>;

export function endingOf(
  { end, seen, signalledAtMs, writersStoppedAtMs }: RunEnd,
  rules: EndRules,
  nowMs: number,
): TaskEnding {
  const task = taskOutcome(seen ?? end);
  return {
    // `watch` without an exit status: the task may have been killed.
    clean: task !== undefined && closedItsFiles(task, rules),
    endedAtMs: end?.atMs ?? nowMs,
    signalledAtMs,
    writersStoppedAtMs,
    bySignal: end === undefined || end.signal !== undefined,
  };
}

/**
 * How the user can declare that such an end leaves nothing half-written. Undefined where no program could promise that:
 * the task was killed, or its shell passed on a death, or nobody saw its end.
 */
export function trustHint({ end, reason, writersStoppedAtMs }: RunEnd): string | undefined {
  const code = end?.code ?? EXIT.ok;
  if (code === EXIT.ok || reason === LAUNCHER_LOST || writersStoppedAtMs !== undefined) return undefined;
  if (signalOfStatus(code) !== undefined) return undefined;
  return `if the task has always closed its files itself when it ends with ${code}: --trust-exit ${code}`;
}

/** False if it is known that the task did not end with 0. */
export function hasSucceeded({ end }: RunEnd): boolean {
  const task = taskOutcome(end);
  return task === undefined || statusOfTask(task) === EXIT.ok;
}

/** Files that may not be whole although the task did not fail: their writers were stopped. */
export function halfWritten({ files }: OutcomeParts, run: RunEnd, ending: TaskEnding): readonly LeftFile[] {
  if (!hasSucceeded(run)) return [];
  const isUnseen = run.end === undefined;
  const why = isUnseen
    ? 'it was closed when the task was told to end, and nobody said how the task ended (--exit-file)'
    : 'its writer was still at work after the task and had to be stopped';
  const left: LeftFile[] = [];
  // Checkpoints have an older set.
  for (const role of isUnseen ? (['result'] as const) : (['result', 'checkpoint'] as const)) {
    for (const { path, lastClose } of files.fileStates(role))
      if (isSuspect(lastClose, ending)) left.push({ path, why });
  }
  return left;
}

/** With `--require-results`: the result patterns that no file ever matched, although the task succeeded. */
export function missingResults(
  parts: OutcomeParts,
  run: RunEnd,
  left: readonly LeftFile[],
): readonly LeftFile[] {
  const { endRules, manifest } = parts.context.settings;
  if (!endRules.requireResults || !hasSucceeded(run)) return [];
  const lacking = unmatched(manifest.results, storedResults(parts));
  return unmatched(
    lacking,
    left.map(({ path }) => path),
  ).map((path) => ({
    path,
    why: 'required, and the task never closed such a file',
  }));
}

export function outcomeOf(parts: OutcomeParts, run: RunEnd, left: readonly LeftFile[]): Outcome {
  const { manifest, settings } = parts.context;
  const { endRules: rules, preemptedStatus } = settings;
  const isStored = (patterns: readonly string[]): boolean =>
    unmatched(patterns, storedResults(parts)).length === 0;
  return {
    task: taskOutcome(run.end),
    preempted: run.preempted,
    left,
    complete: isComplete(rules, {
      doneWhen: isStored(rules.doneWhen === undefined ? [] : [rules.doneWhen]),
      everyName: isStored(manifest.exact.results),
      everyPattern: isStored(settings.manifest.results),
    }),
    rules,
    preemptedStatus,
    exhausted: exhaustedBy(parts.context),
  };
}

/**
 * If the store is lost, another attempt would find nothing of this one: the exit status is neither success nor "run me
 * again".
 */
export function verdictWhenLost(verdict: Verdict): Verdict {
  if (verdict.status !== EXIT.ok && verdict.kind !== 'preempted') return verdict;
  return { kind: 'failed', status: EXIT.notStored, reason: 'what was stored is not in the store any more' };
}

/** `--max-attempts`: why a further attempt is pointless, or undefined. */
function exhaustedBy({ settings, history, ledger, attempt }: OutcomeContext): string | undefined {
  const { maxAttempts, verify } = settings;
  if (maxAttempts === undefined) return undefined;
  const verified = verify?.atRestore === true;
  const inVain = attemptsInVain(history.attempts, ledger.generations, attempt, verified);
  if (inVain < maxAttempts) return undefined;
  return `${plural(inVain, 'attempt')} without a newer checkpoint (--max-attempts ${maxAttempts})`;
}

/** Results that are safe, from this attempt or before. Partial results are not. */
function* storedResults({ context, files, suspects }: OutcomeParts): Generator<RelPath> {
  yield* context.ledger.results.keys();
  for (const { path, durable } of files.fileStates('result'))
    if (durable !== undefined && !suspects.has(path)) yield path;
}

function taskOutcome(end: TaskEnd | undefined): TaskOutcome | undefined {
  if (end === undefined) return undefined;
  return end.code === undefined ? { signalNumber: numberOfSignal(end.signal) } : { code: end.code };
}
