// `capture queue ui`: bull-board in a browser of this machine, at an address that contains a token, with the report of
// each array.
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { openHeard } from '../../array/stored-array.ts';
import type { Sink } from '../../array/report/output-file.ts';
import { writeReport } from '../../array/report/report.ts';
import { STALE_AFTER_MS } from '../../array/state.ts';
import type { Tools } from '../../cli/command.ts';
import { CaptureError, reasonOf } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import { onQueue, type OpenQueue } from './command.ts';
import { QUEUE_UI } from './options.ts';
import type { Submission } from '../../model/many/submission.ts';

/** The build copies the files there (build.mjs). */
const BOARD_FILES = fileURLToPath(new URL('./board', import.meta.url));

export const uiCommand = onQueue({
  name: 'queue ui',
  help: {
    about:
      'Serves a page that shows the queue, its jobs and what failed, and the report of each array, on 127.0.0.1. It changes ' +
      'nothing. The address that it prints holds a token: whoever has it can see the queue.',
    statuses: {},
    examples: [
      'capture queue ui --queue redis://head:6379/lab',
      'capture queue ui --queue redis://head/lab --port 8080',
    ],
  },
  options: QUEUE_UI,
  read: ({ port }) => port,
  act: serve,
});

/** Serves until a signal ends it, which is the normal end. */
async function serve({ broker, connection }: OpenQueue, port: number, tools: Tools): Promise<ExitStatus> {
  const { log, out, signal } = tools;
  // Loaded only here, because it brings a web server and a browser's files.
  const { openBoardServer } = await import('./board-server.ts');
  const server = await openBoardServer({
    connection,
    broker,
    port,
    boardFiles: BOARD_FILES,
    report: (submission) => reportOf(submission, tools),
  }).catch((error: unknown) => {
    throw new CaptureError(EXIT.unavailable, `cannot serve on 127.0.0.1:${port}: ${reasonOf(error)}`, {
      hint: 'another --port, or --port 0 for any',
      cause: error,
    });
  });
  try {
    await out.write(`${server.url}\n`);
    log.info('open this address in a browser of this machine; Ctrl-C ends it');
    if (!signal.aborted) await once(signal, 'abort');
    const why: unknown = signal.reason;
    if (why instanceof CaptureError) return why.status;
    throw why;
  } finally {
    await server.close();
  }
}

/** Renders the page of `capture report` in this process. Values from the queue never become a command line. */
async function reportOf(
  { store: settings, taskName }: Submission,
  { log, signal, env }: Pick<Tools, 'log' | 'signal' | 'env'>,
): Promise<string> {
  const { store, close } = await openHeard({ settings, taskName }, { log });
  const parts: string[] = [];
  const sink: Sink = { write: async (text) => void parts.push(text) };
  try {
    const asked = { set: undefined, staleAfterMs: STALE_AFTER_MS };
    await writeReport({ store, taskName }, asked, { log, signal, env, sink: () => sink });
    return parts.join('');
  } finally {
    await close();
  }
}
