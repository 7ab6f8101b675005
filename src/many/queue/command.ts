// Read this first. What all commands on a queue share: --queue, and a connection that is closed when the command ends.
// Each command has one file here, and its line in commands.ts.
import type { Command, CommandHelp, Line, Tools } from '../../cli/command.ts';
import type { OptionGroup } from '../../cli/options/spec.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { parseQueueUrl, type QueuePlace } from '../../model/many/queue-url.ts';
import { awayText, BrokerAway } from '../broker.ts';
import { BullMqQueue } from './bullmq.ts';
import { connect, type Connection } from './connect.ts';
import { QUEUE } from './options.ts';

interface QueueParts<Options extends OptionGroup, Request> {
  readonly name: Command['name'];
  readonly help: CommandHelp;
  readonly options: Options;
  read(options: ValuesOf<Options>, line: Line): Request;
  act(opened: OpenQueue, request: Request, tools: Tools): Promise<ExitStatus>;
}

export interface OpenQueue {
  readonly broker: BullMqQueue;
  readonly connection: Connection;
}

interface OnQueue<Request> {
  readonly queue: QueuePlace;
  readonly request: Request;
}

/** A command that needs a connection to the queue. */
export function onQueue<Options extends OptionGroup, Request>({
  help,
  options,
  read,
  act,
  ...parts
}: QueueParts<Options, Request>): Command<OnQueue<Request>> {
  const queueOptions = Object.values(QUEUE);
  return {
    ...parts,
    help: { ...help, statuses: { 69: 'the queue cannot be used', ...help.statuses } },
    options: [...queueOptions, ...Object.values(options)],
    variables: queueOptions,
    read: (line) => {
      const request = read(line.values.all(options), line);
      const queue = readQueue(line);
      return queue === undefined ? undefined : { queue, request };
    },
    act: ({ queue, request }, tools) => withQueue(queue, tools, (opened) => act(opened, request, tools)),
  };
}

/** Undefined if no queue is given, or if a mistake was reported. */
export function readQueue({ values }: Line): QueuePlace | undefined {
  if (!values.has(QUEUE.queue))
    values.refuse('no queue is named', '--queue redis://host:6379/name, or CAPTURE_QUEUE');
  return values.parsed(QUEUE.queue, parseQueueUrl);
}

/** Connects, calls `act` and closes. Throws status 69 if the queue cannot be used. */
export async function withQueue(
  queue: QueuePlace,
  { log, signal }: Pick<Tools, 'log' | 'signal'>,
  act: (opened: OpenQueue) => Promise<ExitStatus>,
): Promise<ExitStatus> {
  const connection = await connect(queue, log, signal);
  const broker = new BullMqQueue(connection);
  try {
    return await act({ broker, connection });
  } catch (error) {
    if (!(error instanceof BrokerAway)) throw error;
    throw new CaptureError(EXIT.unavailable, awayText(error), {
      hint: error.hint ?? 'repeat the command: what was done stays done',
      cause: error,
    });
  } finally {
    await broker.close();
  }
}
