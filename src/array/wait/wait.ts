// `capture wait <url>`: blocks until nothing of an array is to come any more, tells how far it is, and in the end
// whoever --notify names.
import { setTimeout as sleep } from 'node:timers/promises';
import { NOTIFY_OPTION } from '../../cli/options/notify.ts';
import { durationMs } from '../../cli/options/readers.ts';
import { group } from '../../cli/options/spec.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { NotifyTarget } from '../../model/format/settings.ts';
import type { IndexSet } from '../../model/index-set.ts';
import { formatMs } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import { notify } from '../../notify/notify.ts';
import { ARRAY_OPTION, STALE_OPTION } from '../array-option.ts';
import { type ArrayCommand, type Line, refuseOperands, type Tools } from '../command.ts';
import { lookAgain } from '../look-again.ts';
import { findPlace, openHeard, type Place, readPlace } from '../place.ts';
import { type Counts, countsOf, countsText, statesOf } from '../state.ts';
import { survey } from '../survey.ts';

const OPTIONS = group('Wait:', {
  array: { ...ARRAY_OPTION, help: 'these indices; without it those that have begun' },
  every: {
    flags: '--every <duration>',
    kind: 'value',
    help: 'how often the store is asked',
    read: durationMs(1000),
    default: '30s',
  },
  timeout: {
    flags: '--timeout <duration>',
    kind: 'value',
    help: 'give up after so long',
    read: durationMs(1000),
    otherwise: 'never',
  },
  'fail-fast': { flags: '--fail-fast', kind: 'flag', help: 'do not wait for the others once one has failed' },
  'stale-after': {
    ...STALE_OPTION,
    help: 'an attempt without a sign of life for so long was probably killed; it is waited for, and told',
  },
  notify: { ...NOTIFY_OPTION, help: 'tell it in the end: one POST of JSON, or one command that reads it' },
});

/** As timeout(1) exits. */
const TIMED_OUT: ExitStatus = 124;
const NOT_ALL: ExitStatus = 1;

interface Asked {
  readonly set: IndexSet | undefined;
  readonly everyMs: number;
  readonly timeoutMs: number | undefined;
  readonly failFast: boolean;
  readonly staleAfterMs: number;
  readonly notify: NotifyTarget | undefined;
}

interface Waiting extends Asked {
  /** Ms since the epoch. */
  readonly endMs: number;
}

export const waitCommand: ArrayCommand = {
  help: {
    about:
      'Blocks until every index is done or has failed. One that was preempted, was killed without a word or has not ' +
      'begun is waited for: somebody will run it again.',
    statuses: `    0  all are done
    1  at least one has failed
  124  --timeout is over`,
    examples: [
      'capture wait s3://lab/run7 --array 0-9999',
      'capture wait s3://lab/run7 --array 0-99 --timeout 12h --notify https://chat.example.org/hook',
      'capture wait s3://lab/run7 --array 0-99 --notify ./tell-me.sh',
    ],
  },
  options: Object.values(OPTIONS),
  read: (line) => {
    const given = readPlace(line);
    refuseOperands(line);
    const asked = askedOf(line);
    return async (tools) => {
      // Refused above.
      if (given === undefined) return EXIT.usage;
      const endMs = clockMs() + (asked.timeoutMs ?? Infinity);
      const waiting = { ...asked, endMs };
      const { store, close } = await openHeard(given, tools);
      try {
        const find = (): Promise<Place> => findPlace(store, given, tools.signal);
        const place = await placeOnceBegun(find, waiting, tools);
        return place === undefined ? TIMED_OUT : await wait(place, waiting, tools);
      } finally {
        await close();
      }
    };
  },
};

function askedOf({ values }: Line): Asked {
  return {
    set: values.of(OPTIONS.array),
    everyMs: values.of(OPTIONS.every),
    timeoutMs: values.of(OPTIONS.timeout),
    failFast: values.has(OPTIONS['fail-fast']),
    staleAfterMs: values.of(OPTIONS['stale-after']),
    notify: values.of(OPTIONS.notify),
  };
}

/** With --array it may be that none has begun: the store is empty until one does. Undefined if --timeout is over. */
async function placeOnceBegun(
  find: () => Promise<Place>,
  asked: Waiting,
  tools: Tools,
): Promise<Place | undefined> {
  for (let isTold = false; ; isTold = true) {
    try {
      const place = await lookAgain(find);
      if (place !== undefined) return place;
    } catch (error) {
      const isEmpty = error instanceof CaptureError && error.status === EXIT.inputMissing;
      if (!isEmpty || asked.set === undefined) throw error;
      if (!isTold) tools.log.info(`${error.message}: none of the indices has begun`);
    }
    if (!(await pause(asked, tools))) {
      tools.log.error(`none of the indices has begun after ${formatMs(asked.timeoutMs ?? 0)}`);
      return undefined;
    }
  }
}

/** Until it is time to look again; false if it never is. */
async function pause({ endMs, everyMs }: Waiting, { signal }: Tools): Promise<boolean> {
  const leftMs = endMs - clockMs();
  if (leftMs <= 0) return false;
  await sleep(Math.min(everyMs, leftMs), undefined, { signal });
  return true;
}

async function wait(place: Place, asked: Waiting, tools: Tools): Promise<ExitStatus> {
  let told = '';
  let counts: Counts | undefined;
  for (;;) {
    counts = (await lookAgain(() => countsNow(place, asked, tools))) ?? counts;
    const text = counts === undefined ? told : countsText(counts);
    const status = counts === undefined ? undefined : statusOf(counts, asked);
    // Only what is new: a log of a day stays short.
    if (text !== told) tools.log.info(text, { event: status === undefined ? 'message' : 'summary' });
    told = text;
    if (counts !== undefined && status !== undefined)
      return await end(place, asked, { counts, status, text }, tools);
    if (await pause(asked, tools)) continue;
    tools.log.error(`not all are done after ${formatMs(asked.timeoutMs ?? 0)}: ${text}`);
    return TIMED_OUT;
  }
}

async function countsNow(place: Place, { set, staleAfterMs }: Asked, { signal }: Tools): Promise<Counts> {
  return countsOf(statesOf(await survey(place, clockMs(), signal), staleAfterMs, set));
}

/** Undefined while there is something to wait for. */
function statusOf(counts: Counts, { failFast }: Asked): ExitStatus | undefined {
  const { done, failed, ended, stale, missing, preempted, running } = counts;
  const isOver = stale + missing + preempted + running === 0 && done + failed + ended > 0;
  if (!isOver && !(failFast && failed > 0)) return undefined;
  return failed + ended === 0 ? EXIT.ok : NOT_ALL;
}

interface End {
  readonly counts: Counts;
  readonly status: ExitStatus;
  readonly text: string;
}

async function end(
  { store, taskName: task }: Place,
  asked: Asked,
  { counts, status, text }: End,
  { log, signal }: Tools,
): Promise<ExitStatus> {
  if (asked.notify === undefined) return status;
  const event = status === EXIT.ok ? 'all-done' : 'failed';
  const told = { event, text: `${task}: ${text}`, task, status, store: store.url, counts } as const;
  const why = await notify(asked.notify, told, signal);
  if (why !== undefined) log.warn(`--notify did not work: ${why}`);
  return status;
}
