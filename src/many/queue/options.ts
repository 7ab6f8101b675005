// The options of `capture submit`, `capture worker` and `capture queue`. What a task needs is said when it is submitted; what
// a machine gives, by its worker.
import { ARRAY, OF_RUN } from '../options.ts';
import { type Option as AnyOption, group } from '../../cli/options/spec.ts';
import { count, durationMs, type Reader } from '../../cli/options/readers.ts';
import type { Values } from '../../cli/options/values.ts';
import type { Mistake } from '../../model/errors.ts';
import { isCapability, isSubmissionName } from '../../model/many/submission.ts';
import { parseQueueUrl, type QueuePlace } from '../../model/many/queue-url.ts';

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

const command: Reader<string> = (text) =>
  text.trim() === '' || text.includes('\0') ? { is: 'not a command', example: "'make -j'" } : { value: text };

export const QUEUE = group('The queue:', {
  queue: {
    flags: '--queue <url>',
    kind: 'value',
    help: 'redis[s]://[user[:password]@]host[:6379]/name, or redis+unix:///path?name=name; REDISCLI_AUTH may hold the password',
  },
});

export const SUBMIT = group('The submission:', {
  name: {
    flags: '--name <name>',
    kind: 'value',
    help: 'what it is called in the queue',
    read: name,
    otherwise: "the task's name and a number",
  },
  array: { ...ARRAY.array },
  tasks: { ...ARRAY.tasks },
  needs: {
    flags: '--needs <names>',
    kind: 'list',
    help: 'capabilities that a worker must have, such as gpu,openfoam',
    read: names(isCapability, 'gpu,openfoam'),
  },
  cpus: { ...ARRAY.cpus },
  memory: { ...ARRAY.memory },
  priority: {
    flags: '--priority <n>',
    kind: 'value',
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
    kind: 'value',
    help: 'a shell command, once for each worker before the first task: builds or downloads what the tasks use',
    read: command,
  },
  retries: { ...ARRAY.retries },
  halt: { ...ARRAY.halt },
  'no-logs': { ...ARRAY['no-logs'] },
  again: {
    flags: '--again',
    kind: 'flag',
    help: 'the submission may be there: add what is neither done nor in the queue',
  },
  notify: { ...ARRAY.notify },
  'dry-run': { ...ARRAY['dry-run'], help: 'print what would be submitted; change nothing' },
});

/** What is said of a machine, or of one run alone, is no word of a submission. */
const OF_WORKERS: ReadonlySet<string> = new Set(['notice', 'notice-on', 'log-file', 'notify', 'dry-run']);
/** Options of a run that a submission may carry. */
export const OF_TASKS: readonly AnyOption[] = OF_RUN.filter(({ name }) => !OF_WORKERS.has(name));

export const WORKER = group('The worker:', {
  has: {
    flags: '--has <names>',
    kind: 'list',
    help: 'capabilities of this machine, such as gpu,openfoam',
    read: names(isCapability, 'gpu,openfoam'),
  },
  jobs: { ...ARRAY.jobs },
  nice: { ...ARRAY.nice },
  'max-load': { ...ARRAY['max-load'] },
  scratch: { ...ARRAY.scratch },
  'when-idle': {
    flags: '--when-idle <minutes>',
    kind: 'value',
    help: 'only while nobody has used this machine for so long: else tasks checkpoint and go back to the queue',
    read: minutes,
  },
  'idle-timeout': {
    flags: '--idle-timeout <duration>',
    kind: 'value',
    help: 'end when there was nothing to do for so long',
    read: durationMs(),
    otherwise: 'never',
  },
  'lost-after': {
    flags: '--lost-after <duration>',
    kind: 'value',
    help: 'without a sign of life for so long, the tasks of this worker go to others',
    read: durationMs(2000),
    default: '60s',
  },
  joblog: { ...ARRAY.joblog },
  'on-end': { ...ARRAY['on-end'] },
  'log-file': { ...ARRAY['log-file'] },
});

export const PAUSE = group('The pause:', {
  for: {
    flags: '--for <duration>',
    kind: 'value',
    help: 'go on by itself after so long',
    read: durationMs(1000),
    otherwise: 'until capture worker resume',
  },
  how: {
    flags: '--how <how>',
    kind: 'value',
    help: 'checkpoint: tasks checkpoint, end, and go back to the queue; stop: they are frozen where they are',
    read: (text: string) =>
      text === 'stop' || text === 'checkpoint'
        ? { value: text }
        : { is: 'neither checkpoint nor stop', example: 'checkpoint' },
    default: 'checkpoint',
  },
});

export const QUEUE_STATUS = group('Options:', {
  watch: { flags: '--watch', kind: 'flag', help: 'again and again, until all are done' },
  every: {
    flags: '--every <duration>',
    kind: 'value',
    help: 'how often with --watch',
    read: durationMs(500),
    default: '5s',
  },
  json: { flags: '--json', kind: 'flag', help: 'one JSON document' },
});

export const QUEUE_UI = group('Options:', {
  port: {
    flags: '--port <n>',
    kind: 'value',
    help: 'on 127.0.0.1; 0: any',
    read: count(0, 65_535),
    default: '0',
  },
});

const NO_QUEUE: Mistake = {
  message: 'no queue is named',
  hint: '--queue redis://host:6379/name, or CAPTURE_QUEUE',
};

/** Undefined if there is none, or none that is right: that has been refused. */
export function queueOf(values: Values): QueuePlace | undefined {
  if (!values.has(QUEUE.queue)) values.refuse([NO_QUEUE]);
  return values.parsed(QUEUE.queue, parseQueueUrl);
}

/** Of lists with commas that may also be repeated. */
export function allOf(
  values: Values,
  option: AnyOption & { readonly read: Reader<readonly string[]> },
): readonly string[] {
  return [...new Set(values.each(option).flat())];
}
