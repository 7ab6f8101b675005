// `capture wait <url>`: blocks until nothing more will happen in an array, logs the progress, and at the end sends
// --notify.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Tools } from '../../cli/command.ts';
import { NOTIFY_OPTION } from '../../cli/options/messages.ts';
import { durationMs } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { showPath } from '../../model/path.ts';
import { formatMs } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { notify } from '../../notify/notify.ts';
import { onAddress } from '../command.ts';
import { lookAgain } from '../look-again.ts';
import { ARRAY_OPTION, STALE_OPTION } from '../options.ts';
import { type ArrayAddress, findArray, openHeard, type StoredArray } from '../stored-array.ts';
import { type Counts, countsOf, countsText, statesOf } from '../state.ts';
import { SlurmJobs } from '../slurm-jobs.ts';
import { survey, type Survey } from '../survey.ts';

const OPTIONS = group('Wait:', {
  set: { ...ARRAY_OPTION, help: 'these indices; without it those that have begun' },
  everyMs: {
    flags: '--every <duration>',
    help: 'how often the store is asked',
    read: durationMs(1000),
    default: '30s',
  },
  timeoutMs: {
    flags: '--timeout <duration>',
    help: 'give up after so long',
    read: durationMs(1000),
    otherwise: 'never',
  },
  failFast: { flags: '--fail-fast', help: 'do not wait for the others once one has failed' },
  staleAfterMs: {
    ...STALE_OPTION,
    help: 'report an attempt without a sign of life for so long as probably killed, and go on waiting for it',
  },
  notify: { ...NOTIFY_OPTION, help: 'report the end to a URL (a POST of JSON) or a command (JSON on stdin)' },
});

/** The exit status of timeout(1). */
const TIMED_OUT = 124;
const NOT_ALL: ExitStatus = 1;

type WaitOptions = ValuesOf<typeof OPTIONS>;

interface Waiting extends WaitOptions {
  /** Ms since the epoch. */
  readonly endMs: number;
}

export const waitCommand = onAddress({
  name: 'wait',
  help: {
    about:
      'Waits until every index is done or has failed, also for one that was preempted or killed, or has not begun: ' +
      'the scheduler will run it again.',
    statuses: { 0: 'all are done', 1: 'at least one has failed', [TIMED_OUT]: '--timeout is over' },
    examples: [
      'capture wait s3://lab/run7 --array 0-9999',
      'capture wait s3://lab/run7 --array 0-99 --timeout 12h --notify https://chat.example.org/hook',
      'capture wait s3://lab/run7 --array 0-99 --notify ./tell-me.sh',
    ],
  },
  options: OPTIONS,
  read: (options) => options,
  act: waitAt,
});

async function waitAt(address: ArrayAddress, options: WaitOptions, tools: Tools): Promise<ExitStatus> {
  const waiting = { ...options, endMs: clockMs() + (options.timeoutMs ?? Infinity) };
  const { store, close } = await openHeard(address, tools);
  try {
    const find = (): Promise<StoredArray> => findArray(store, address, tools.signal);
    const array = await arrayOnceBegun(find, waiting, tools);
    return array === undefined ? TIMED_OUT : await wait(array, waiting, tools);
  } finally {
    await close();
  }
}

/** With --array, no index may have started yet: the store is empty until one does. Undefined after --timeout. */
async function arrayOnceBegun(
  find: () => Promise<StoredArray>,
  waiting: Waiting,
  tools: Tools,
): Promise<StoredArray | undefined> {
  for (let isTold = false; ; isTold = true) {
    try {
      const array = await lookAgain(find);
      if (array !== undefined) return array;
    } catch (error) {
      const isEmpty = error instanceof CaptureError && error.status === EXIT.inputMissing;
      if (!isEmpty || waiting.set === undefined) throw error;
      if (!isTold) tools.log.info(`${error.message}: none of the indices has begun`);
    }
    if (!(await pause(waiting, tools))) {
      tools.log.error(`none of the indices has begun after ${formatMs(waiting.timeoutMs ?? 0)}`);
      return undefined;
    }
  }
}

/** Sleeps until the next look. Returns false if --timeout comes first. */
async function pause({ endMs, everyMs }: Waiting, { signal }: Tools): Promise<boolean> {
  const leftMs = endMs - clockMs();
  if (leftMs <= 0) return false;
  await sleep(Math.min(everyMs, leftMs), undefined, { signal });
  return true;
}

async function wait(array: StoredArray, waiting: Waiting, tools: Tools): Promise<ExitStatus> {
  const jobs = new SlurmJobs(tools);
  let told = '';
  let counts: Counts | undefined;
  for (;;) {
    counts = (await lookAgain(() => countsNow(array, waiting, { ...tools, jobs }))) ?? counts;
    const text = counts === undefined ? told : countsText(counts);
    const status = counts === undefined ? undefined : statusOf(counts, waiting);
    // Only changes are logged, so that the log of a day stays short.
    if (text !== told) tools.log.info(text, { event: status === undefined ? 'message' : 'summary' });
    told = text;
    if (counts !== undefined && status !== undefined)
      return await end(array, waiting, { counts, status, text }, tools);
    if (await pause(waiting, tools)) continue;
    const hint = counts === undefined ? undefined : hintFor(counts, array.store.url);
    tools.log.error(`not all are done after ${formatMs(waiting.timeoutMs ?? 0)}: ${text}`, { hint });
    return TIMED_OUT;
  }
}

async function countsNow(
  array: StoredArray,
  { set, staleAfterMs }: WaitOptions,
  { signal, jobs }: Pick<Tools, 'signal'> & { readonly jobs: SlurmJobs },
): Promise<Counts> {
  const look = (): Promise<Survey> => survey(array, clockMs(), signal);
  return countsOf(statesOf(await jobs.mark({ array, staleAfterMs, all: false }, look), staleAfterMs, set));
}

/** Undefined while there is something to wait for. */
function statusOf(counts: Counts, { failFast }: WaitOptions): ExitStatus | undefined {
  const { done, failed, ended, stale, missing, preempted, running } = counts;
  const isOver = stale + missing + preempted + running === 0 && done + failed + ended > 0;
  if (!isOver && !(failFast && failed > 0)) return undefined;
  return failed + ended === 0 ? EXIT.ok : NOT_ALL;
}

/** Undefined if more time may help. */
function hintFor(
  { running, preempted, missing, failed, ended, stale }: Counts,
  url: string,
): string | undefined {
  if (running + preempted + missing > 0 || failed + ended + stale === 0) return undefined;
  return `nothing of it runs any more: see why with capture status ${showPath(url)}, and run again what is not done`;
}

interface WaitEnd {
  readonly counts: Counts;
  readonly status: ExitStatus;
  readonly text: string;
}

async function end(
  { store, taskName: task }: StoredArray,
  waiting: WaitOptions,
  { counts, status, text }: WaitEnd,
  { log, signal }: Tools,
): Promise<ExitStatus> {
  if (waiting.notify === undefined) return status;
  const event = status === EXIT.ok ? 'all-done' : 'failed';
  const told = { event, text: `${task}: ${text}`, task, status, store: store.url, counts } as const;
  const why = await notify(waiting.notify, told, signal);
  if (why !== undefined) log.warn(`--notify did not work: ${why}`);
  return status;
}
