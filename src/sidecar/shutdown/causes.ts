// What the machine shows of why a task failed, although its exit status does not tell: the kernel killed a process of it
// for lack of memory, or a file system is full. It is for people, and changes nothing.
import fs from 'node:fs/promises';
import os from 'node:os';
import { outOfMemoryText, ranOutOfMemory } from '../../model/format/out-of-memory.ts';
import { DISK_FULL } from '../../model/format/stop-cause.ts';
import { showPath } from '../../model/path.ts';
import { formatBytes } from '../../model/units.ts';
import { heldPath } from '../../native/beneath.ts';
import { fullness } from '../../native/disk-use.ts';
import { mountOf } from '../../native/mounts.ts';
import type { Needs } from '../run/context.ts';
import { type FinishParts, hasSucceeded, type RunEnd } from './outcome.ts';

export interface Cause {
  /** In a few words, for a table; undefined: it is not certain enough. */
  readonly why: string | undefined;
  readonly text: string;
  readonly hint: string;
}

interface CauseParts {
  readonly context: Needs<'root' | 'settings' | 'caller' | 'log' | 'ledger'>;
  readonly results: Pick<FinishParts['results'], 'copies'>;
}

/**
 * Call it as soon as the task has ended: what is reclaimed later makes room. Warns if the task ended well without one of
 * its processes. Never rejects.
 */
export async function causesOf(parts: CauseParts, run: RunEnd): Promise<readonly Cause[]> {
  const end = { ...run.end, outOfMemory: run.outOfMemory };
  const text = outOfMemoryText(end);
  if (hasSucceeded(run)) {
    if (ranOutOfMemory(end)) warnOfKill(parts.context, text);
    return [];
  }
  const hint = 'request more memory (capture status --suggest says how much), or let the task use less';
  const why = ranOutOfMemory(end) ? 'out of memory' : undefined;
  const killed = text === undefined ? [] : [{ why, text, hint }];
  // Whoever asked the task to end is the reason.
  return whyAsked(parts.context, run) === undefined ? [...killed, ...(await fullFileSystems(parts))] : killed;
}

/** A task that goes on without one of its processes may have left out a part of its work. */
function warnOfKill({ log }: Needs<'log'>, text: string | undefined): void {
  log.warn(`the task ended with 0, and was ${text}`, {
    hint: 'check that its results are complete, and request more memory',
  });
}

/** Who asked the task to end, or why nobody saw its end. */
export function whyAsked(
  { ledger }: Needs<'ledger'>,
  { reason }: Pick<RunEnd, 'reason'>,
): string | undefined {
  return reason ?? ledger.stop?.reason;
}

/** `whys`, and what the machine shows. Undefined if the status alone tells it. */
export function withCauses(
  whys: readonly (string | undefined)[],
  causes: readonly Cause[],
): string | undefined {
  const all = [...whys.filter((why) => why !== undefined), ...causes.map(({ text }) => text)];
  return all.length === 0 ? undefined : all.join('; ');
}

/** Of the work directory, and of the task's directory for temporary files. */
async function fullFileSystems({ context, results }: CauseParts): Promise<readonly Cause[]> {
  const { root, settings, caller } = context;
  const storedBytes = results.copies.bytes;
  const workdirHint =
    storedBytes > 0 && settings.reclaim !== 'now'
      ? `--reclaim now deletes each result as soon as it is stored: ${formatBytes(storedBytes)} were still here`
      : 'free space there, or let --workdir (capture array: --scratch) name a larger file system';
  const temporary = caller.env['TMPDIR'] ?? os.tmpdir();
  const workdir = await fullAt(heldPath(root), 'the work directory', workdirHint);
  const other = await fullAt(
    temporary,
    'TMPDIR',
    'free space there, or let TMPDIR name a larger file system',
  );
  const isSame = workdir !== undefined && workdir.device === other?.device;
  return [workdir, ...(isSame ? [] : [other])].filter((one) => one !== undefined);
}

async function fullAt(
  dir: string,
  name: string,
  hint: string,
): Promise<(Cause & { readonly device: number }) | undefined> {
  try {
    const left = fullness(await fs.statfs(dir));
    if (left === undefined) return undefined;
    const { dev: device } = await fs.stat(dir);
    const { point } = mountOf(await fs.realpath(dir)) ?? {};
    const where = `the file system of ${name}${point === undefined ? '' : ` (${showPath(point)})`}`;
    const text =
      left.of === 'space'
        ? `${where} is full: ${formatBytes(left.freeBytes)} free`
        : `${where} has no room for another file (inodes): ${formatBytes(left.freeBytes)} free`;
    return { why: left.of === 'space' ? DISK_FULL : 'no inodes left', text, hint, device };
  } catch {
    return undefined; // it is gone, or nobody may look at it
  }
}
