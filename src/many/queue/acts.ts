// `capture queue cancel`, `retry` and `drain`: each changes the queue, and workers see the change at their next look.
import type { Command, CommandHelp } from '../../cli/command.ts';
import type { Log } from '../../log/log.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { nearestWord } from '../../model/nearest.ts';
import type { Submission } from '../../model/many/submission.ts';
import { plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import type { Listed } from '../broker.ts';
import type { BullMqQueue } from './bullmq.ts';
import { onQueue } from './command.ts';
import { doneOf } from './look.ts';
import { noSuch } from './submit.ts';

/** A command with one operand, the name of a submission or worker. */
function onOne(
  what: 'submission' | 'worker',
  { name, ...help }: CommandHelp & Pick<Command, 'name'>,
  act: (broker: BullMqQueue, name: string, log: Log) => Promise<void>,
): Command {
  return onQueue({
    name,
    help,
    options: {},
    read: (_, { operands }) => operands[what] ?? '',
    act: async ({ broker }, one, { log }) => {
      await act(broker, one, log);
      return EXIT.ok;
    },
  });
}

export const cancelCommand = onOne(
  'submission',
  {
    name: 'queue cancel',
    about:
      'Drops the waiting tasks of a submission, and ends the running ones after a checkpoint. What is stored stays. A second cancel ' +
      'of one that has ended removes it from the queue.',
    statuses: { 0: 'cancelled, or removed' },
    examples: ['capture queue cancel melt-7 --queue redis://head:6379/lab'],
  },
  async (broker, name, log) => {
    const listed = await broker.list();
    const found = findSubmission(listed, name, broker);
    const counts = await broker.counts(found.name);
    const { running, waiting } = counts;
    if (found.overMs !== undefined || (found.cancelledMs !== undefined && running === 0)) {
      refuseAwaited(found, listed);
      await broker.remove(found.name);
      return log.info(`${found.name} is removed from the queue; what is stored stays`);
    }
    const dropped = (found.dropped ?? 0) + waiting;
    const doneBefore = found.doneBefore ?? doneOf({ submission: found, counts });
    await broker.put({ ...found, cancelledMs: clockMs(), dropped, doneBefore });
    await broker.dropWaiting(found.name);
    const rest =
      running === 0 ? 'nothing of it runs' : `${plural(running, 'task')} of it end after a checkpoint`;
    const gone = waiting === 0 ? '' : `${plural(waiting, 'waiting task')} dropped; `;
    log.info(`${found.name} is cancelled; ${gone}${rest}`);
  },
);

export const retryCommand = onOne(
  'submission',
  {
    name: 'queue retry',
    about: 'Queues all failed tasks of a submission again, each from its checkpoint.',
    statuses: { 0: 'they are queued again, or none had failed' },
    examples: ['capture queue retry melt-7 --queue redis://head:6379/lab'],
  },
  async (broker, name, log) => {
    const found = findSubmission(await broker.list(), name, broker);
    if (found.cancelledMs !== undefined)
      throw new CaptureError(EXIT.usage, `${found.name} is cancelled`, {
        hint: `the same capture submit again, with --again --name ${found.name}`,
      });
    const { failed } = await broker.counts(found.name);
    if (failed > 0) await broker.retry(found.name);
    log.info(`${found.name}: ${plural(failed, 'task')} tried again`);
  },
);

export const drainCommand = onOne(
  'worker',
  {
    name: 'queue drain',
    about:
      'Makes a worker take no more tasks: it ends after its last one. capture queue status shows their names.',
    statuses: { 0: 'told' },
    examples: ['capture queue drain node3.4711 --queue redis://head:6379/lab'],
  },
  async (broker, name, log) => {
    const workers = await broker.workers();
    const names = workers?.map((one) => one.name);
    // If the server hides the names of its clients, a worker still finds its own drain job.
    if (names !== undefined && !names.includes(name))
      throw new CaptureError(EXIT.usage, `no worker ${name} is at ${broker.place}`, {
        hint: nearestWord(name, names) ?? 'capture queue status shows all of them',
      });
    await broker.drain(name);
    log.info(`${name} takes no more tasks, and ends after its last one`);
  },
);

function findSubmission(listed: readonly Listed[], name: string, { place }: BullMqQueue): Submission {
  const all = listed.flatMap((one) => (one.kind === 'submission' ? [one.submission] : []));
  const found = all.find((one) => one.name === name);
  if (found !== undefined) return found;
  const unreadable = listed.find((one) => one.kind === 'unreadable' && one.name === name);
  if (unreadable?.kind === 'unreadable')
    throw new CaptureError(EXIT.usage, `${name} in ${place} cannot be read: ${unreadable.why}`, {
      hint: unreadable.hint ?? 'use the version of capture that submitted it',
    });
  throw noSuch(
    name,
    all.map((one) => one.name),
    place,
  );
}

/** Refuses if another submission waits for this one: it would wait for ever. */
function refuseAwaited({ name }: Submission, listed: readonly Listed[]): void {
  const awaiting = listed.find(
    (one) =>
      one.kind === 'submission' &&
      one.submission.after.includes(name) &&
      one.submission.overMs === undefined &&
      one.submission.cancelledMs === undefined,
  );
  if (awaiting?.kind !== 'submission') return;
  throw new CaptureError(EXIT.usage, `${awaiting.submission.name} begins after ${name}, and has not ended`, {
    hint: `capture queue cancel ${awaiting.submission.name}`,
  });
}
