// `capture submit`: puts an array into the queue. Indices that are done in the store are left out. Jobs are added
// before the submission itself, so that no worker takes jobs of an incomplete submission.
import { numberText } from '../../array/columns.ts';
import type { Command, Line, Tools } from '../../cli/command.ts';
import type { GivenCommand, Tasks } from '../../cli/job/tasks.ts';
import type { ValuesOf } from '../../cli/options/values.ts';
import type { Output } from '../../cli/output.ts';
import { CaptureError } from '../../model/errors.ts';
import { EXIT, type ExitStatus } from '../../model/exit-status.ts';
import type { Settings } from '../../model/format/settings.ts';
import { indexArray, indicesOf } from '../../model/index-set.ts';
import { showCommand } from '../../model/many/placeholders.ts';
import { type QueuePlace, showQueue } from '../../model/many/queue-url.ts';
import { QUEUE_FORMAT, type QueuedTask, type Submission } from '../../model/many/submission.ts';
import { nearestWord } from '../../model/nearest.ts';
import { showLines } from '../../model/path.ts';
import { plural } from '../../model/units.ts';
import { clockMs } from '../../native/clock.ts';
import type { Listed } from '../broker.ts';
import { refuseMissingProgram, warnOfFilesHere } from '../../cli/job/from-here.ts';
import { NO_STORE } from '../../cli/options/local.ts';
import { readTasks, settingsOfRun, taskNameOf } from '../line.ts';
import { everyWordOf, logOutput, refusedOptions } from '../options.ts';
import { storedState } from '../stored-state.ts';
import { submissionOf } from '../submitted.ts';
import type { BullMqQueue } from './bullmq.ts';
import { readQueue, withQueue } from './command.ts';
import { allOf, OF_TASKS, QUEUE, SUBMIT } from './options.ts';
import { warnIfOpenToAll } from './open-to-all.ts';

/** Options whose values are made absolute here, because they depend on the current directory and environment. */
const ABSOLUTE: ReadonlySet<string> = new Set(['to', 'from', 'namespace', 'task-name']);

export const submitCommand: Command<SubmitRequest> = {
  name: 'submit',
  help: {
    usage: '[job.yaml] --queue <url> [options] [-- <task> [args...]]',
    about:
      'Puts all tasks of an array into a queue, from which workers on any number of machines take them (capture worker). ' +
      'Each runs as capture runs one. What is done in the store is left out. {index} in the command is the index, {name} ' +
      'a column of --tasks.',
    statuses: {
      0: 'submitted, or nothing is left to do',
      69: 'the queue or the store cannot be used',
    },
    examples: [
      'capture submit job.yaml',
      'capture submit --queue redis://head:6379/lab --array 0-99 -r final.dat -k state.chk --to s3://lab/run7 -- ./task {index}',
      'capture submit --queue redis://head/lab --name mesh --array 0-9 --needs gpu --memory 8GiB --to s3://lab/mesh -r m.dat -- mesh {index}',
      'capture submit --queue redis://head/lab --after mesh --tasks runs.csv -r f.dat --to s3://lab/f -- ./solve --size {size}',
    ],
  },
  options: [...Object.values(QUEUE), ...Object.values(SUBMIT), ...OF_TASKS],
  variables: [...Object.values(QUEUE), ...OF_TASKS],
  takesTask: true,
  read: readSubmit,
  act: submit,
};

interface SubmitRequest {
  readonly queue: QueuePlace;
  readonly submission: Submission;
  readonly tasks: Tasks;
  readonly isAgain: boolean;
  readonly isDryRun: boolean;
}

function readSubmit(line: Line): SubmitRequest | undefined {
  const { values, given, cwd, outside } = line;
  values.refuseAll(refusedOptions(line));
  const queue = readQueue(line);
  const options = values.all(SUBMIT);
  const tasks = readTasks(line);
  if (options.isAgain && options.name === undefined)
    values.refuse('--again needs the name of the submission', '--again --name melt-7');
  if (tasks === undefined) return undefined;
  const words = [...OF_TASKS.flatMap((option) => everyWordOf(given, option)), ...logOutput(given)];
  const run = settingsOfRun(words, tasks, { env: {}, cwd, outside });
  if (run.kind === 'mistakes') values.refuseAll(run.mistakes);
  if (!given.has('to')) values.refuseAll([NO_STORE]);
  // What is prepared on each worker may bring the program.
  if (options.prepare === undefined) refuseMissingProgram(line, tasks, false);
  if (run.kind !== 'go' || queue === undefined) return undefined;
  line.warn(run.warnings);
  if (options.prepare === undefined) warnOfFilesHere(line, tasks, run.request.settings.manifest);
  const { isAgain, isDryRun } = options;
  const submission = named(line, tasks, { ...options, settings: run.request.settings });
  return { queue, submission, tasks, isAgain, isDryRun };
}

interface SubmitOptions extends ValuesOf<typeof SUBMIT> {
  /** The settings of each run. */
  readonly settings: Settings;
}

function named(
  { values, given, task: command, cwd }: Line,
  tasks: Tasks,
  { settings, cores, memoryBytes, prepare, notify, ...options }: SubmitOptions,
): Submission {
  const { to, from } = settings;
  const taskName = taskNameOf(tasks, values, settings);
  const passed = OF_TASKS.filter(({ name }) => !ABSOLUTE.has(name)).flatMap((option) =>
    everyWordOf(given, option),
  );
  const store = [`--to=${to.url}`, ...(from === undefined ? [] : [`--from=${from.url}`])];
  const array = {
    tasks,
    taskName,
    settings,
    cwd,
    options: [...passed, ...logOutput(given), ...store],
    needs: { cores, memoryBytes },
    retries: options.retries,
    halt: options.halt,
  };
  return {
    ...submissionOf(array, indexArray(tasks.indices).length),
    name: options.name ?? freshName(taskName),
    ...(command === undefined ? {} : { command: plainCommand(command) }),
    jobsHoldTask: options.tasks !== undefined,
    capabilities: [...allOf(options.needs)].toSorted(),
    priority: options.priority,
    after: [...allOf(options.after)],
    ...(prepare === undefined ? {} : { prepare }),
    ...(notify === undefined ? {} : { notify }),
  };
}

/** The command without its place in the job file, which only messages use. */
function plainCommand(command: GivenCommand): NonNullable<Submission['command']> {
  return command.kind === 'shell'
    ? { kind: 'shell', text: command.text }
    : { kind: 'argv', argv: [...command.argv] };
}

/** Random, so that two users who submit at the same moment get different names. */
function freshName(taskName: string): string {
  const plain = taskName.replaceAll(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '');
  const random = Math.floor(Math.random() * 36 ** 2)
    .toString(36)
    .padStart(2, '0');
  return `${plain === '' ? 'task' : plain.slice(0, 60)}-${clockMs().toString(36).slice(-6)}${random}`;
}

async function submit(request: SubmitRequest, tools: Tools): Promise<ExitStatus> {
  const { log, out, signal } = tools;
  if (request.isDryRun) return dryRun(request, out);
  return withQueue(request.queue, tools, async ({ broker, connection }) => {
    await warnIfOpenToAll(connection, log);
    const { submission, tasks, isAgain } = request;
    const listed = await broker.list();
    const before = refuseWrong(listed, request, broker);
    // With a run id, only each run itself finds out what is done.
    const { store: settings, taskName } = submission;
    const place = { settings, taskName, indices: tasks.indices };
    // Running indices get a job, too: if their worker is gone, another one continues.
    const { left, done } =
      submission.runId === undefined
        ? await storedState(place, log, signal)
        : { left: indexArray(tasks.indices), done: 0 };
    const count = left.length;
    if (count === 0) {
      // Other submissions may wait for this one (--after).
      await broker.put({ ...submission, overMs: clockMs() });
      log.info(
        `${plural(submission.size, 'task')} of ${submission.taskName} -> ${submission.store.url}: all are done`,
      );
      return EXIT.ok;
    }
    // An interrupted submission may have left jobs that nobody sees.
    if (before === undefined) await broker.remove(submission.name);
    try {
      await broker.add(submission, queuedTasks(tasks, submission, left), signal);
    } catch (error) {
      // No worker would ever take the jobs that were added so far.
      if (before === undefined) await broker.remove(submission.name).catch(() => undefined);
      throw error;
    }
    const { submittedMs } = before ?? submission;
    await broker.put({ ...submission, submittedMs, filled: { atMs: clockMs(), count } });
    const doneText = done === 0 ? '' : `, ${numberText(done)} are done`;
    const how = isAgain ? 'are in the queue' : 'submitted';
    log.info(
      `${submission.name}: ${numberText(count)} of ${numberText(submission.size)} ${submission.size === 1 ? 'task' : 'tasks'} ${how}${doneText}`,
    );
    await sayIfNobodyCan(submission, broker, log);
    await out.write(`${submission.name}\n`);
    return EXIT.ok;
  });
}

/** Only a message, no error: such a worker may start at any time. */
async function sayIfNobodyCan(
  { name, capabilities }: Submission,
  broker: BullMqQueue,
  log: Tools['log'],
): Promise<void> {
  const workers = await broker.workers();
  const isLacking = (one: string): boolean => !workers?.some((worker) => worker.capabilities.includes(one));
  const lacking = capabilities.filter(isLacking);
  if (workers === undefined || workers.length === 0 || lacking.length === 0) return;
  const known = new Set(workers.flatMap((worker) => worker.capabilities));
  const meant = lacking.map((one) => nearestWord(one, [...known])).filter((one) => one !== undefined);
  const start = `a worker with --has ${capabilities.join(',')}`;
  log.warn(`no worker has ${lacking.join(', ')}: ${name} waits for one`, {
    hint: meant.length === 0 ? start : `--needs ${meant.join(',')}, or ${start}`,
  });
}

function* queuedTasks(
  tasks: Tasks,
  { jobsHoldTask, command }: Submission,
  left: Uint32Array,
): Generator<QueuedTask> {
  for (const index of left) {
    if (!jobsHoldTask) yield { format: QUEUE_FORMAT, index };
    else if (command === undefined)
      yield { format: QUEUE_FORMAT, index, command: tasks.commandOf(index).argv.at(-1) ?? '' };
    else yield { format: QUEUE_FORMAT, index, values: { ...tasks.commandOf(index).env } };
  }
}

/** Resolves to the existing submission with this name. Throws status 64 if the new one must not be added. */
function refuseWrong(
  listed: readonly Listed[],
  { submission, isAgain }: SubmitRequest,
  { place }: BullMqQueue,
): Submission | undefined {
  const later = listed.find((one) => one.kind === 'unreadable' && (one.format ?? 0) > QUEUE_FORMAT);
  if (later?.kind === 'unreadable')
    throw new CaptureError(EXIT.usage, `${place} is used by a later version of capture: ${later.why}`, {
      hint: 'update capture here, or take another queue: --queue redis://host:6379/other',
    });
  const names = listed.flatMap((one) => (one.kind === 'submission' ? one.submission.name : []));
  for (const name of submission.after) {
    if (!names.includes(name)) throw noSuch(name, names, place);
    const awaited = listed.find((one) => one.kind === 'submission' && one.submission.name === name);
    if (awaited?.kind === 'submission' && awaited.submission.cancelledMs !== undefined)
      throw new CaptureError(EXIT.usage, `--after ${name}: ${name} is cancelled, and will never be done`, {
        hint: `submit it again first, with --again --name ${name}`,
      });
  }
  const found = listed.find((one) => one.kind === 'submission' && one.submission.name === submission.name);
  if (found?.kind !== 'submission') return undefined;
  if (!isAgain)
    throw new CaptureError(EXIT.usage, `${submission.name} is in ${place} already`, {
      hint: 'another --name; or --again, to add what is neither done nor in the queue',
    });
  return found.submission;
}

export function noSuch(name: string, names: readonly string[], place: string): CaptureError {
  const nearest = nearestWord(name, names);
  return new CaptureError(EXIT.usage, `there is no submission ${name} in ${place}`, {
    hint: nearest ?? 'capture queue status shows all of them',
  });
}

async function dryRun({ submission, tasks, queue }: SubmitRequest, out: Output): Promise<ExitStatus> {
  const { name, taskName, store, capabilities, after, prepare, size } = submission;
  await out.line(`${name}: ${plural(size, 'task')} ${taskName} -> ${store.url} -> ${showQueue(queue)}`);
  if (capabilities.length > 0) await out.line(`needs: ${capabilities.join(', ')}`);
  if (after.length > 0) await out.line(`after: ${after.join(', ')}`);
  if (prepare !== undefined) await out.write(`prepare: ${showLines(prepare)}\n`);
  for (const index of indicesOf(tasks.indices))
    await out.write(`${index}: ${showLines(showCommand(tasks.commandOf(index).argv))}\n`);
  return EXIT.ok;
}
