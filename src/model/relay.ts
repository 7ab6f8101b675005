// Which of the launcher's signals are passed on to the task, and when. Pure; the launcher sends them. A signal must
// reach the task once, whether it was sent to the launcher or to every process of the job.

/** Every signal that the launcher handles. */
export const JOB_SIGNALS = [
  'SIGTERM',
  'SIGINT',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  // A CPU time limit: of LSF, of Grid Engine, or `ulimit -St`.
  'SIGXCPU',
  'SIGALRM',
  'SIGPWR',
  'SIGWINCH',
  'SIGCONT',
  'SIGTSTP',
] as const;
export type JobSignal = (typeof JOB_SIGNALS)[number];

/** How long the launcher waits for the sidecar to report the same signal before it passes it on. */
export const BROADCAST_WINDOW_MS = 100;
/** How long a report of the sidecar counts if it arrived before the launcher's own signal. */
export const SIGHTING_LIFE_MS = 1000;
/** Between SIGTERM and SIGKILL, for processes that must end now. */
export const KILL_AFTER_MS = 5000;

/** What happens to a signal that the launcher received while the task runs. */
export type RelayRule = 'at-once' | 'unless-broadcast' | 'never';

/**
 * The sidecar stands in for the task: a signal that reached the sidecar also reached the task. The sidecar does not
 * report WINCH and CONT: receiving these twice is harmless, and the terminal itself sends WINCH to the whole group.
 */
export function relayRule(signal: JobSignal, sharesGroup: boolean): RelayRule {
  switch (signal) {
    case 'SIGCONT':
      return 'at-once';
    case 'SIGWINCH':
      return sharesGroup ? 'never' : 'at-once';
    case 'SIGTSTP':
      return sharesGroup ? 'unless-broadcast' : 'at-once';
    default:
      return 'unless-broadcast';
  }
}

/** True for a signal that the sidecar reports and does not obey. */
export function isReported(signal: JobSignal): boolean {
  return canEndTask(signal) || signal === 'SIGTSTP';
}

/** True for a signal that ends a task which does not handle it. The sidecar must know that it was sent. */
export function canEndTask(signal: JobSignal): boolean {
  return signal !== 'SIGWINCH' && signal !== 'SIGCONT' && signal !== 'SIGTSTP';
}

/**
 * True for a signal that asks the launcher itself to end. Before the task runs, the launcher obeys no other signal.
 */
export function asksToEnd(signal: JobSignal): boolean {
  return canEndTask(signal) && signal !== 'SIGUSR1' && signal !== 'SIGUSR2';
}
