// The command line of `capture worker` (run-worker.ts).
import type { Command, Line } from '../../cli/command.ts';
import type { Option } from '../../cli/options/spec.ts';
import { STOP } from '../../cli/options/stop.ts';
import { settingsOfRun } from '../line.ts';
import { everyWordOf } from '../options.ts';
import { runnerTools } from '../tools.ts';
import { readQueue } from './command.ts';
import { allOf, QUEUE, WORKER } from './options.ts';
import { runWorker, type WorkerRequest } from './run-worker.ts';

const NOTICE_OPTIONS: readonly Option[] = [STOP.notice, STOP.noticeOn];

const OPTIONS = [...Object.values(QUEUE), ...Object.values(WORKER), ...NOTICE_OPTIONS];

export const workerCommand: Command<WorkerRequest> = {
  name: 'worker',
  help: {
    usage: '--queue <url> [options]',
    about:
      'Runs tasks of a queue on this machine, as many at once as it has room for, and only those that it can run now. Start one ' +
      'on each machine; start and end them at any time. capture worker pause gives the machine back for a while.',
    statuses: {
      0: 'drained, or idle for --idle-timeout',
      69: 'the queue cannot be used, or could not be read for --idle-timeout',
      75: 'told to end (SIGTERM, a notice)',
      130: 'stopped by SIGINT',
    },
    examples: [
      'capture worker --queue redis://head:6379/lab',
      'capture worker --queue redis://head/lab --has gpu,openfoam --jobs 2 --nice 10 --when-idle 15',
      "capture worker --queue redis://head/lab --idle-timeout 10m --on-end 'shutdown -h now'",
    ],
  },
  options: OPTIONS,
  variables: OPTIONS,
  handlesSignals: true,
  read: readWorker,
  act: (request, tools) => runWorker(request, runnerTools(tools)),
};

function readWorker(line: Line): WorkerRequest | undefined {
  const { values, given, cwd, outside } = line;
  const queue = readQueue(line);
  const { capabilities, ...options } = values.all(WORKER);
  // Parsed with a run's own parser; its other settings are ignored.
  const words = ['--to=/tmp', ...NOTICE_OPTIONS.flatMap((option) => everyWordOf(given, option))];
  const some = { indices: { ranges: [] }, argv: ['true'] };
  const run = settingsOfRun(words, some, { env: {}, cwd, outside });
  if (run.kind === 'mistakes') values.refuseAll(run.mistakes);
  if (run.kind !== 'go' || queue === undefined) return undefined;
  const { notices } = run.request.settings;
  return { ...options, queue, notices, capabilities: [...allOf(capabilities)].toSorted() };
}
