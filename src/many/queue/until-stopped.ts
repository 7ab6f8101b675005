// A command that asks a queue and runs no task: the first signal ends it as soon as it can.
import { setMaxListeners } from 'node:events';
import type { Log } from '../../log/log.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus, statusOfSignal } from '../../model/exit-status.ts';
import type { QueuePlace } from '../../model/many/queue-url.ts';
import { openStops } from '../../native/stops.ts';
import { BrokerAway } from '../broker.ts';
import { BullMqQueue } from './bullmq.ts';
import { connect, type Connection } from './connect.ts';

/** Connects, acts and closes. Throws status 69 if the queue cannot be used, and 128+N at a signal. */
export async function withQueue(
  place: QueuePlace | undefined,
  log: Log,
  act: (broker: BullMqQueue, signal: AbortSignal, connection: Connection) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  if (place === undefined) return EXIT.usage;
  const stopping = new AbortController();
  setMaxListeners(0, stopping.signal);
  const stops = openStops();
  void stops.second.then(({ number }) => process.exit(statusOfSignal(number)));
  void stops.first.then(({ signal, number }) =>
    stopping.abort(new CaptureError(statusOfSignal(number), `stopped by ${signal}`)),
  );
  try {
    const connection = await connect(place, log, stopping.signal);
    const broker = new BullMqQueue(connection);
    try {
      return await act(broker, stopping.signal, connection);
    } finally {
      await broker.close();
    }
  } catch (error) {
    if (stopping.signal.aborted) throw stopping.signal.reason;
    if (!(error instanceof BrokerAway)) throw error;
    throw new CaptureError(EXIT.unavailable, `the queue cannot be reached any more: ${error.message}`, {
      hint: 'give the same command again: what was done stays done',
      cause: error,
    });
  } finally {
    stops.close();
  }
}
