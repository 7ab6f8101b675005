// Does a person use this machine? By what logind says of its sessions, and by when somebody last typed at a terminal, as
// w(1) has it. For --when-idle.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { noteOwn } from '../../launch/own-children.ts';

const TERMINALS = '/dev/pts';
/** loginctl asks D-Bus, which may hang with its service. */
const ANSWER_MS = 5000;

/** For how long nobody has used it, ms; Infinity if nobody is logged in. `nowMs` is the time of day. */
export async function unusedForMs(
  nowMs: number,
  env: NodeJS.ProcessEnv,
  ownChildren: Set<number>,
): Promise<number> {
  return Math.min(await byLogind(nowMs, env, ownChildren), byTerminals(nowMs));
}

async function byLogind(nowMs: number, env: NodeJS.ProcessEnv, ownChildren: Set<number>): Promise<number> {
  try {
    // Without a session it shows what holds for all of them (loginctl(1), show-session).
    const asked = promisify(execFile)(
      'loginctl',
      ['show-session', '--property=IdleHint', '--property=IdleSinceHint', '--property=NCurrentSessions'],
      { timeout: ANSWER_MS, env },
    );
    noteOwn(asked.child, ownChildren);
    const { stdout } = await asked;
    return idleByLogind(stdout, nowMs);
  } catch {
    // No systemd, as in a container: then the terminals tell.
    return Infinity;
  }
}

/** From `IdleHint=yes`, `IdleSinceHint=<µs since 1970>`. */
export function idleByLogind(text: string, nowMs: number): number {
  const fields = new Map(text.split('\n').map((line) => line.split('=', 2) as [string, string]));
  if (fields.get('NCurrentSessions') === '0') return Infinity;
  const hint = fields.get('IdleHint');
  if (hint === undefined) return Infinity;
  if (hint !== 'yes') return 0;
  const sinceMs = Number(fields.get('IdleSinceHint') ?? 0) / 1000;
  // Since it started: nobody was there.
  return sinceMs === 0 ? Infinity : Math.max(0, nowMs - sinceMs);
}

/** Reading what is typed sets a terminal's access time (w(1), "IDLE"). */
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
