// The end of the run: scan, make everything durable, commit the last checkpoint, write the last record,
// reclaim, and say what was stored, what was left and why. The exit status it returns tells the truth.
import os from 'node:os';
import { isSettled, type Track } from '../core/decide.ts';
import { reasonOf } from '../core/errors.ts';
import { EXIT, type ExitStatus } from '../core/exit-status.ts';
import type { TaskEnd } from '../core/messages.ts';
import type { LeftFile } from '../core/records.ts';
import { showPath, type RelPath } from '../core/path.ts';
import { isSuspect, type Ending } from '../core/suspect.ts';
import { verdictOf, type Outcome } from '../core/verdict.ts';
import type { Watcher } from '../watch/watcher.ts';
import type { Checkpoints } from './checkpoints.ts';
import type { Context } from './context.ts';
import type { Files } from './files.ts';
import type { Generations } from './generations.ts';
import { moveToPartial } from './partials.ts';
import type { Recorder } from './recorder.ts';
import { lastLine, leftFiles } from './report.ts';
import type { Reclaims } from './reclaims.ts';
import { checkpointsToReclaim } from './reclaimable.ts';
import type { Results } from './results.ts';
import { statMember } from './members.ts';

/** Kept of the window for the last record, ms. */
const RECORD_MARGIN_MS = 1000;

export interface FinishParts {
  readonly context: Context;
  readonly files: Files;
  readonly results: Results;
  readonly checkpoints: Checkpoints;
  readonly generations: Generations;
  readonly recorder: Recorder;
  readonly reclaims: Reclaims;
  readonly watcher: Watcher;
  /** Paths whose pushes go to the partial key from now on. */
  readonly suspects: Set<RelPath>;
}

export interface RunEnd {
  /** Undefined when nobody knows how the task ended (`watch`). */
  readonly end: TaskEnd | undefined;
  readonly preempted: boolean;
  readonly signalledAtMs: number | undefined;
  /** Ms since the epoch at which we are killed, if known. */
  readonly deadlineMs: number | undefined;
  /** Why the task did not end in the usual way, for the record. */
  readonly reason?: string;
}

export interface Finished {
  readonly status: ExitStatus;
  readonly line: string;
}

export async function finish(parts: FinishParts, run: RunEnd): Promise<Finished> {
  const { context, files, generations, recorder } = parts;
  const ending = endingOf(run, context.now());
  const deadline = deadlineOf(context, run);
  generations.pause();
  await finalScan(parts, deadline);
  if (ending.clean) files.adoptInherited();
  const suspects = files.tracks('result').filter((track) => isSuspect(track.lastClose, ending));
  for (const { path } of suspects) parts.suspects.add(path);
  // Only now: what was held back because it may be a death's is not published as if it were whole.
  files.holdReplacing(false);
  files.hurry();
  await settle(parts, deadline);
  await moveSuspects(parts, suspects);
  const postponed = await lastGeneration(parts, ending);
  files.stop();
  await recorder.stop();
  const left = leftFiles(parts, postponed);
  const outcome = outcomeOf(parts, run, left);
  const verdict = verdictOf(outcome);
  const recorded = await lastRecord(parts, run, verdict, left);
  const status = recorded || verdict.status !== EXIT.ok ? verdict.status : EXIT.notStored;
  if (recorded) {
    await parts.results.deleteObsolete().catch((error: unknown) => context.log.warn(reasonOf(error)));
    await parts.reclaims.atEnd(checkpointsToReclaim(parts));
  }
  return { status, line: lastLine(parts, left, recorded) };
}

function endingOf({ end, signalledAtMs }: RunEnd, nowMs: number): Ending {
  return {
    // `watch` without word from the task: nothing says that it was killed.
    clean: end === undefined || end.code === 0,
    endedAtMs: end?.atMs ?? nowMs,
    signalledAtMs,
    killed: end?.signal !== undefined,
  };
}

function deadlineOf({ settings, signal, now }: Context, run: RunEnd): AbortSignal {
  const ms =
    run.deadlineMs === undefined ? settings.drainTimeoutMs : run.deadlineMs - now() - RECORD_MARGIN_MS;
  return AbortSignal.any([signal, AbortSignal.timeout(Math.max(0, Math.min(ms, 2 ** 31 - 1)))]);
}

/** Finds what no event told of: a missed event costs time, never a file. */
async function finalScan({ context, files, watcher }: FinishParts, deadline: AbortSignal): Promise<void> {
  watcher.drainNow();
  try {
    for (const { path, facts } of await watcher.scan(deadline))
      files.closed(path, 'scan', context.now(), facts);
  } catch (error) {
    if (!deadline.aborted) throw error;
    context.log.warn('no time was left for the final scan: closes that gave no event are not stored');
  }
}

/** Waits until everything is durable, and shows how far it is. */
async function settle({ context, files }: FinishParts, deadline: AbortSignal): Promise<void> {
  const waiting = [...files.tracks('result'), ...files.tracks('checkpoint')].filter(
    (track) => !isSettled(track),
  );
  const bytes = waiting.reduce((sum, { path }) => sum + (statMember(context.root, path)?.size ?? 0), 0);
  context.progress.begin('storing', waiting.length, bytes);
  await files.settled(deadline);
  context.progress.end();
}

/** What was published before the death was known stands under a key for whole results: it is moved. */
async function moveSuspects({ context, results }: FinishParts, suspects: readonly Track[]): Promise<void> {
  for (const { path, lastClose } of suspects) {
    if (lastClose === undefined || !results.publishedSince(path, lastClose.atMs)) continue;
    try {
      await moveToPartial(context, path);
      results.reclaimable.delete(path);
    } catch (error) {
      context.log.warn(
        `${showPath(path)} may be half-written and could not be moved aside: ${reasonOf(error)}`,
      );
    }
  }
}

async function lastGeneration(parts: FinishParts, ending: Ending): Promise<readonly RelPath[]> {
  const { context, files, generations } = parts;
  try {
    return await generations.final({
      clean: ending.clean,
      nowMs: ending.endedAtMs,
      suspect: (path) => isSuspect(files.get(path, 'checkpoint')?.lastClose, ending),
    });
  } catch (error) {
    if (!context.signal.aborted)
      context.log.warn(`the last checkpoint could not be committed: ${reasonOf(error)}`);
    return generations.members();
  }
}

function outcomeOf(
  { context, results, files }: FinishParts,
  run: RunEnd,
  left: readonly LeftFile[],
): Outcome {
  const { end, preempted } = run;
  const { ledger, manifest, settings } = context;
  const isStored = (path: RelPath): boolean =>
    ledger.results.has(path) ||
    results.empty.has(path) ||
    files.get(path, 'result')?.durable !== undefined ||
    // A name without a wildcard may be a directory.
    [...ledger.results.keys()].some((stored) => stored.startsWith(`${path}/`));
  return {
    task:
      end === undefined
        ? undefined
        : end.code === undefined
          ? { signalNumber: signalNumber(end) }
          : { code: end.code },
    preempted,
    left,
    allNamedStored: manifest.exact.results.every(isStored),
    preemptedStatus: settings.preemptedStatus,
  };
}

function signalNumber(end: TaskEnd): number {
  const numbers: Readonly<Record<string, number | undefined>> = os.constants.signals;
  return numbers[end.signal ?? ''] ?? 0;
}

/** True when the record that closes the attempt is in the store. */
async function lastRecord(
  { context }: FinishParts,
  run: RunEnd,
  verdict: { kind: Parameters<Context['ledger']['write']>[0]; status: ExitStatus },
  left: readonly LeftFile[],
): Promise<boolean> {
  const { end, reason } = run;
  try {
    const told = { code: end?.code, signal: end?.signal, status: verdict.status, reason };
    await context.ledger.write(verdict.kind, { left, end: told }, context.signal);
    return true;
  } catch (error) {
    if (!context.signal.aborted)
      context.log.error(`the last record could not be written: ${reasonOf(error)}`);
    return false;
  }
}
