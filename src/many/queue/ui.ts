// `capture queue ui`: bull-board in a browser of this machine, behind an address that only who has the token can use, and the
// report of each array beside it.
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { openHeard } from '../../array/place.ts';
import type { Sink } from '../../array/report/output-file.ts';
import { writeReport } from '../../array/report/report.ts';
import { STALE_AFTER_MS } from '../../array/state.ts';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { type QueueCommand, type QueueTools, refuseOperands } from './command.ts';
import type { Connection } from './connect.ts';
import { QUEUE, QUEUE_UI, queueOf } from './options.ts';
import type { BullMqQueue } from './bullmq.ts';
import { withQueue } from './until-stopped.ts';
import type { Submission } from '../../model/many/submission.ts';

/** Copied there by build.mjs. */
const BOARD_FILES = fileURLToPath(new URL('./board', import.meta.url));

export const uiCommand: QueueCommand = {
  title: 'capture queue ui',
  usage: '[options]',
  about:
    'Serves a page that shows the queue, its jobs and what failed, and the report of each array, on 127.0.0.1. It changes ' +
    'nothing. The address that it prints holds a token: whoever has it can see the queue.',
  statuses: '  130  stopped by SIGINT (143 by SIGTERM)',
  examples: [
    'capture queue ui --queue redis://head:6379/lab',
    'capture queue ui --queue redis://head/lab --port 8080',
  ],
  options: [...Object.values(QUEUE), ...Object.values(QUEUE_UI)],
  variables: Object.values(QUEUE),
  takesTask: false,
  read: (line) => {
    refuseOperands(line);
    const place = queueOf(line.values);
    const port = line.values.of(QUEUE_UI.port);
    return (tools) =>
      withQueue(place, tools.log, (broker, signal, connection) =>
        serve({ broker, connection, port, tools }, signal),
      );
  },
};

interface Served {
  readonly broker: BullMqQueue;
  readonly connection: Connection;
  readonly port: number;
  readonly tools: QueueTools;
}

/** Until it is stopped. */
async function serve({ broker, connection, port, tools }: Served, signal: AbortSignal): Promise<ExitStatus> {
  // Loaded only here: a browser's files, and what serves them.
  const { openBoardServer } = await import('./board-server.ts');
  const server = await openBoardServer({
    connection,
    broker,
    port,
    boardFiles: BOARD_FILES,
    report: (submission) => reportOf(submission, tools, signal),
  }).catch((error: unknown) => {
    throw new CaptureError(EXIT.unavailable, `cannot serve on 127.0.0.1:${port}: ${reasonOf(error)}`, {
      hint: 'another --port, or --port 0 for any',
      cause: error,
    });
  });
  try {
    tools.print(`${server.url}\n`);
    tools.log.info('open this address in a browser of this machine; Ctrl-C ends it');
    if (!signal.aborted) await once(signal, 'abort');
    return signal.reason instanceof CaptureError ? signal.reason.status : EXIT.internal;
  } finally {
    await server.close();
  }
}

/** The page of `capture report`, made anew, in this process: what stands in the queue is never a command line. */
async function reportOf(
  { store: settings, taskName }: Submission,
  { log }: Pick<QueueTools, 'log'>,
  signal: AbortSignal,
): Promise<string> {
  const { store, close } = await openHeard({ settings, taskName }, { log });
  const parts: string[] = [];
  const sink: Sink = { write: async (text) => void parts.push(text) };
  try {
    const asked = { set: undefined, staleAfterMs: STALE_AFTER_MS };
    await writeReport({ store, taskName }, asked, { log, signal, sink: () => sink });
    return parts.join('');
  } finally {
    await close();
  }
}
