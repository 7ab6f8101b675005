// The options of `capture submit`, `capture worker` and `capture queue`. capture submit says what a task needs; capture
// worker says what a machine offers.
import { ARRAY, OF_RUN } from '../options.ts';
import { group, type Option } from '../../cli/options/spec.ts';
import { choice, count, durationMs, type Reader, shellCommand } from '../../cli/options/readers.ts';
import { isCapability, isSubmissionName } from '../../model/many/submission.ts';

const names =
  (isOne: (text: string) => boolean, example: string): Reader<readonly string[]> =>
  (text) => {
    const found = text.split(',').map((one) => one.trim());
    return found.every(isOne)
      ? { value: [...new Set(found)] }
      : { is: 'no names with commas between (letters, digits, - . _)', example };
  };

const name: Reader<string> = (text) =>
  isSubmissionName(text)
    ? { value: text }
    : { is: 'no name (letters, digits, and - . _ between them; 100 at most)', example: 'melt-7' };

const minutes: Reader<number> = (text) => {
  const found = count(1, MOST_MINUTES)(text);
  return 'value' in found ? { value: found.value * 60_000 } : { is: 'no number of minutes', example: '15' };
};

const MOST_MINUTES = 1440;

export const QUEUE = group('The queue:', {
  queue: {
    flags: '--queue <url>',
    help: 'redis[s]://[user[:password]@]host[:6379]/name, or redis+unix:///path?name=name; REDISCLI_AUTH may hold the password',
  },
});

export const SUBMIT = group('The submission:', {
  name: {
    flags: '--name <name>',
    help: 'what it is called in the queue',
    read: name,
    otherwise: "the task's name and a number",
  },
  set: { ...ARRAY.set },
  tasks: { ...ARRAY.tasks },
  needs: {
    flags: '--needs <names>',
    kind: 'list',
    help: 'capabilities that a worker must have, such as gpu,openfoam',
    read: names(isCapability, 'gpu,openfoam'),
  },
  cores: { ...ARRAY.cores },
  memoryBytes: { ...ARRAY.memoryBytes },
  priority: {
    flags: '--priority <n>',
    help: 'the higher, the sooner; of two that are equal, the older one',
    read: count(0, 1_000_000),
    default: '0',
  },
  after: {
    flags: '--after <names>',
    kind: 'list',
    help: 'begin when all of these submissions are done',
    read: names(isSubmissionName, 'melt-7'),
  },
  prepare: {
    flags: '--prepare <command>',
    help: 'a shell command, once for each worker before the first task: builds or downloads what the tasks use',
    read: shellCommand,
  },
  retries: { ...ARRAY.retries },
  halt: { ...ARRAY.halt },
  noLogs: { ...ARRAY.noLogs },
  isAgain: {
    flags: '--again',
    help: 'the submission may be there: add what is neither done nor in the queue',
  },
  notify: { ...ARRAY.notify },
  isDryRun: { ...ARRAY.dryRun, help: 'print what would be submitted; change nothing' },
});

/** Options that describe a machine or a single run. They cannot belong to a submission. */
const OF_WORKERS: ReadonlySet<string> = new Set(['notice', 'notice-on', 'log-file', 'notify', 'dry-run']);
/** Options of a run that a submission may contain. */
export const OF_TASKS: readonly Option[] = OF_RUN.filter(({ name }) => !OF_WORKERS.has(name));

export const WORKER = group('The worker:', {
  capabilities: {
    flags: '--has <names>',
    kind: 'list',
    help: 'capabilities of this machine, such as gpu,openfoam',
    read: names(isCapability, 'gpu,openfoam'),
  },
  jobs: { ...ARRAY.jobs },
  nice: { ...ARRAY.nice },
  maxLoad: { ...ARRAY.maxLoad },
  scratch: { ...ARRAY.scratch },
  whenIdleMs: {
    flags: '--when-idle <minutes>',
    help: 'only while nobody has used this machine for so long: else tasks checkpoint and go back to the queue',
    read: minutes,
  },
  idleTimeoutMs: {
    flags: '--idle-timeout <duration>',
    help: 'end when there was nothing to do for so long',
    read: durationMs(),
    otherwise: 'never',
  },
  lockMs: {
    flags: '--lost-after <duration>',
    help: 'without a sign of life for so long, the tasks of this worker go to others',
    read: durationMs(2000),
    default: '60s',
  },
  joblog: { ...ARRAY.joblog },
  onEnd: { ...ARRAY.onEnd },
  logFile: { ...ARRAY.logFile },
});

export const PAUSE = group('The pause:', {
  forMs: {
    flags: '--for <duration>',
    help: 'go on by itself after so long',
    read: durationMs(1000),
    otherwise: 'until capture worker resume',
  },
  how: {
    flags: '--how <how>',
    help: 'checkpoint: tasks checkpoint, end, and go back to the queue; stop: they are frozen where they are',
    read: choice('checkpoint', 'stop'),
    default: 'checkpoint',
  },
});

export const QUEUE_STATUS = group('Options:', {
  isWatched: { flags: '--watch', help: 'repeat this until all are done' },
  everyMs: {
    flags: '--every <duration>',
    help: 'how often with --watch',
    read: durationMs(500),
    default: '5s',
  },
  isJson: { flags: '--json', help: 'one JSON document' },
});

export const QUEUE_UI = group('Options:', {
  port: { flags: '--port <n>', help: 'on 127.0.0.1; 0: any', read: count(0, 65_535), default: '0' },
});

/** Merges comma-separated lists that may also be repeated. */
export function allOf(lists: readonly (readonly string[])[]): readonly string[] {
  return [...new Set(lists.flat())];
}
