// --when-idle: while somebody uses this machine, its tasks go to other workers. Every few seconds it checks logind's
// sessions, and when somebody last typed at a terminal, as w(1) shows it.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { noteOwnChild } from '../../launch/own-children.ts';
import type { Log } from '../../log/log.ts';
import { formatMs } from '../../model/units.ts';
import { askProgram } from '../../native/ask-program.ts';
import { clockMs } from '../../native/clock.ts';
import type { Pausing } from './pausing.ts';

interface UseWatch {
  readonly log: Pick<Log, 'info'>;
  /** The load average of one minute. */
  readonly loadOf: () => number;
  /** None of our tasks runs, so the load comes from others. */
  readonly isIdle: () => boolean;
  /** The environment of loginctl. */
  readonly env: NodeJS.ProcessEnv;
  /** Running children that we started ourselves; this module keeps the set up to date. */
  readonly ownChildren: Set<number>;
}

const TERMINALS = '/dev/pts';
/** loginctl calls D-Bus, which may hang together with its service. */
const ANSWER_MS = 5000;
const LOOK_EVERY_MS = 5000;
/** Above this load per core somebody computes here, even if nobody is at the keyboard. */
const BUSY_SHARE = 0.5;

/** Runs until `signal` aborts. `afterMs` is the value of --when-idle. */
export async function watchUse(
  afterMs: number,
  pausing: Pick<Pausing, 'pause' | 'resume'>,
  { log, loadOf, isIdle, env, ownChildren }: UseWatch,
  signal: AbortSignal,
): Promise<void> {
  let isAway = false;
  while (!signal.aborted) {
    const isUsed = (await unusedForMs(clockMs(), env, ownChildren)) < afterMs;
    const isBusy = isIdle() && loadOf() > BUSY_SHARE * os.availableParallelism();
    if ((isUsed || isBusy) && !isAway) {
      isAway = true;
      log.info(
        `${isUsed ? 'somebody uses this machine' : 'this machine is busy'}: tasks go back to the queue`,
      );
      pausing.pause('use', 'checkpoint');
    } else if (!isUsed && !isBusy && isAway) {
      isAway = false;
      log.info(`nobody has used this machine for ${formatMs(afterMs)}: it takes tasks again`);
      pausing.resume('use');
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** How long the machine was unused, in ms; Infinity if nobody is logged in. `nowMs` is the time of day. */
export async function unusedForMs(
  nowMs: number,
  env: NodeJS.ProcessEnv,
  ownChildren: Set<number>,
): Promise<number> {
  return Math.min(await byLogind(nowMs, env, ownChildren), byTerminals(nowMs));
}

async function byLogind(nowMs: number, env: NodeJS.ProcessEnv, ownChildren: Set<number>): Promise<number> {
  try {
    // Without a session, loginctl shows the properties of the manager, for all sessions (loginctl(1), show-session).
    const stdout = await askProgram(
      'loginctl',
      ['show-session', '--property=IdleHint', '--property=IdleSinceHint', '--property=NCurrentSessions'],
      { withinMs: ANSWER_MS, env, started: (child) => noteOwnChild(child, ownChildren) },
    );
    return idleByLogind(stdout, nowMs);
  } catch {
    // No systemd, as in a container: the terminals decide.
    return Infinity;
  }
}

/** Parses `IdleHint=yes` and `IdleSinceHint=<µs since 1970>`. */
export function idleByLogind(text: string, nowMs: number): number {
  const fields = new Map(text.split('\n').map((line) => line.split('=', 2) as [string, string]));
  if (fields.get('NCurrentSessions') === '0') return Infinity;
  const hint = fields.get('IdleHint');
  if (hint === undefined) return Infinity;
  if (hint !== 'yes') return 0;
  const sinceMs = Number(fields.get('IdleSinceHint') ?? 0) / 1000;
  // 0 means idle since boot: nobody was there.
  return sinceMs === 0 ? Infinity : Math.max(0, nowMs - sinceMs);
}

/** Reading typed input sets a terminal's access time (w(1), "IDLE"). */
function byTerminals(nowMs: number): number {
  try {
    const typedMs = fs
      .readdirSync(TERMINALS)
      .filter((name) => /^\d+$/.test(name))
      .map((name) => fs.statSync(path.join(TERMINALS, name)).atimeMs);
    return typedMs.length === 0 ? Infinity : Math.max(0, nowMs - Math.max(...typedMs));
  } catch {
    return Infinity;
  }
}
