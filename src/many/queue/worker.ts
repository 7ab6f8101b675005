// The command line of `capture worker` (run-worker.ts).
import type { Option } from '../../cli/options/spec.ts';
import { STOP } from '../../cli/options/stop.ts';
import { EXIT } from '../../model/exit-status.ts';
import { settingsOfRun } from '../line.ts';
import { everyWordOf } from '../options.ts';
import { type CarryOut, type QueueCommand, type QueueLine, refuseOperands } from './command.ts';
import { allOf, QUEUE, queueOf, WORKER } from './options.ts';
import { runWorker, type WorkerRequest } from './run-worker.ts';

const NOTICE_OPTIONS: readonly Option[] = [STOP.notice, STOP['notice-on']];

export const workerCommand: QueueCommand = {
  title: 'capture worker',
  usage: '--queue <url> [options]',
  about:
    'Runs tasks of a queue on this machine, as many at once as it carries, and only those that it can run now. Start one ' +
    'on each machine; start and end them at any time. capture worker pause gives the machine back for a while.',
  statuses:
    '    0  drained, or idle for --idle-timeout\n   75  told to end (SIGTERM, a notice)\n  130  stopped by SIGINT',
  examples: [
    'capture worker --queue redis://head:6379/lab',
    'capture worker --queue redis://head/lab --has gpu,openfoam --jobs 2 --nice 10 --when-idle 15',
    "capture worker --queue redis://head/lab --idle-timeout 10m --on-end 'shutdown -h now'",
  ],
  options: [...Object.values(QUEUE), ...Object.values(WORKER), ...NOTICE_OPTIONS],
  variables: [...Object.values(QUEUE), ...Object.values(WORKER), ...NOTICE_OPTIONS],
  takesTask: false,
  read: (line) => readWorker(line),
};

function readWorker(line: QueueLine): CarryOut {
  const { values, given, cwd, outside, refuse } = line;
  refuseOperands(line);
  const queue = queueOf(values);
  // Read as a run reads them: of its other settings none is used.
  const words = ['--to=/tmp', ...NOTICE_OPTIONS.flatMap((option) => everyWordOf(given, option))];
  const some = { indices: { ranges: [] }, argv: ['true'] };
  const run = settingsOfRun(words, some, { env: {}, cwd, outside });
  if (run.kind === 'mistakes') refuse(...run.mistakes);
  if (run.kind !== 'run' || queue === undefined) return () => Promise.resolve(EXIT.usage);
  const request: WorkerRequest = {
    queue,
    capabilities: [...allOf(values, WORKER.has)].toSorted(),
    jobs: values.of(WORKER.jobs),
    nice: values.of(WORKER.nice),
    maxLoad: values.of(WORKER['max-load']),
    scratch: values.path(WORKER.scratch),
    joblog: values.path(WORKER.joblog),
    lockMs: values.of(WORKER['lost-after']),
    whenIdleMs: values.of(WORKER['when-idle']),
    idleTimeoutMs: values.of(WORKER['idle-timeout']),
    notices: run.settings.notices,
    onEnd: values.of(WORKER['on-end']),
  };
  return (tools) => runWorker(request, tools);
}
