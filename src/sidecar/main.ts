// The sidecar's process, started by the launcher of one task, or by a runner for all tasks of this machine. It reports
// signals and does not obey them; its orders arrive over the channel, or over the connections of the launchers.
import { EXIT } from '../model/exit-status.ts';
import type { Alive, Ask, FromSidecar, ToSidecar } from '../model/format/messages.ts';
import { isReported, JOB_SIGNALS } from '../model/relay.ts';
import { adoptClock, clockMs } from '../native/clock.ts';
import { guardInspector } from '../native/inspector.ts';
import { Life } from './life.ts';
import { OURSELVES } from './run/context.ts';
import { Shared } from './run/shared.ts';
import { serveLaunchers } from './serve.ts';
import { SharedNotices } from './shared-notices.ts';

/** Schedulers and terminals send these to every process of a job. */
const NOT_OBEYED = JOB_SIGNALS.filter(isReported);
/** A terminal sends these to a background process that writes; they must not stop us (termios(3), TOSTOP). */
const IGNORED = ['SIGTTIN', 'SIGTTOU'] as const;

export function main(): void {
  guardInspector();
  for (const signal of IGNORED) process.on(signal, () => undefined);
  let report: (message: FromSidecar) => void = tell;
  for (const signal of NOT_OBEYED)
    process.on(signal, () => report({ kind: 'signal-seen', signal, atMs: clockMs() }));
  const [, , socket] = process.argv;
  if (socket === undefined) serveOurLauncher();
  else report = serveLaunchers(socket);
}

/** The launcher is our parent, and this process ends with its only life. */
function serveOurLauncher(): void {
  const life = new Life({
    shared: new Shared({ isMany: false }),
    notices: new SharedNotices(process.env),
    launcher: process.ppid,
    stderr: OURSELVES.stderr,
    tell,
    over: () => process.exit(0),
    failed: () => process.exit(EXIT.internal),
  });
  process.on('message', (message: ToSidecar | Ask) => {
    if (message.kind === 'ask') return tell({ kind: 'alive' });
    if (message.kind === 'start') adoptClock(message.clockOffsetMs);
    life.obey(message);
  });
  process.on('disconnect', () => life.launcherLost());
  tell({ kind: 'hello', pid: process.pid });
}

function tell(message: FromSidecar | Alive, then?: () => void): void {
  if (!process.connected || process.send === undefined) {
    then?.();
    return;
  }
  // The callback runs when the message is in the socket: only then may the process end.
  process.send(message, undefined, undefined, () => then?.());
}
