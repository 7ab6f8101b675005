// The table of all commands, in the order of the help. A new command needs its line here, its file in the list of its
// program (`commands.ts` next to each main.ts), and its name in bin/capture.

/** The files of dist/ that bin/capture executes. */
type Program = 'capture' | 'flush' | 'many' | 'queue' | 'array';

/**
 * By name: the program that contains the command, its operands (`<required>` or `[optional]`), and its purpose in one
 * line.
 */
const TABLE = {
  run: ['capture', '-- <task>', 'run a task with capture beside it (the word run may be left out)'],
  array: ['many', '-- <task>', 'run all tasks of an array on this machine'],
  submit: ['queue', '-- <task>', 'put an array into a queue, for several machines'],
  worker: ['queue', '', 'run tasks of a queue on this machine'],
  'worker pause': ['queue', '', 'give this machine back for a while'],
  'worker resume': ['queue', '', 'end the pause'],
  queue: ['queue', '<command>', 'status, ui, cancel, retry, drain: what is in a queue'],
  'queue status': ['queue', '[submission]', 'what waits, runs, has failed and is done, and who works'],
  'queue ui': ['queue', '', 'the same in a browser'],
  'queue retry': ['queue', '<submission>', 'run the failed tasks of a submission again'],
  'queue cancel': ['queue', '<submission>', 'drop what waits, and end what runs after a checkpoint'],
  'queue drain': ['queue', '<worker>', 'this worker takes no more tasks, and ends after its last one'],
  template: ['many', '[name]', 'a commented job file to begin with, or a job script'],
  watch: ['capture', '', 'store the files of a task that something else runs'],
  flush: ['flush', '', "wait until all that is closed is stored (for the task's scripts)"],
  restore: ['capture', '', 'only bring inputs and checkpoint into the work directory'],
  status: ['array', '<url> [index]', 'the state of each index of an array: done, failed, missing, ...'],
  put: ['array', '<file>... <url>', 'inputs into the store: files and directories, checked'],
  gather: ['array', '<url> <directory>', 'the results of all indices in one directory'],
  ls: ['array', '<url> [index]', 'what is stored of one index, object by object'],
  cat: ['array', '<url> <index> <path>', 'one result on stdout, decompressed and checked'],
  verify: ['array', '<url>', 'is everything that the records name there, and whole?'],
  rm: ['array', '<url>', 'delete all that is stored of an index'],
  prune: ['array', '<url>', 'delete checkpoints of finished indices, and leftovers'],
  logs: ['array', '<url> [index]', 'what the task wrote to stdout and stderr, as far as it is stored'],
  report: ['array', '<url>', 'one page that shows the whole array, what was saved and lost'],
  doctor: ['array', '[url]', 'before the first job: will it work here, and with this store?'],
  wait: ['array', '<url>', 'until every index of an array is done or has failed'],
  keygen: ['many', '', 'a new key for --encrypt'],
  config: ['many', '', 'which defaults are in force, and where each comes from'],
  completion: ['many', '<shell>', 'what completes command lines in bash, zsh or fish'],
} as const satisfies Readonly<Record<string, readonly [Program, usage: string, what: string]>>;

export type CommandName = keyof typeof TABLE;

export const COMMAND_NAMES = Object.keys(TABLE) as readonly CommandName[];

export function programOf(name: CommandName): Program {
  return TABLE[name][0];
}

export function usageOf(name: CommandName): string {
  return TABLE[name][1];
}

/** The purpose of a command, in one line. */
export function purposeOf(name: CommandName): string {
  return TABLE[name][2];
}

/**
 * The commands that start with these words: `queue ` gives `status`. Without words, the commands directly after
 * `capture`.
 */
export function commandsBehind(words: string): readonly CommandName[] {
  return COMMAND_NAMES.filter((name) => name.startsWith(words) && !name.slice(words.length).includes(' '));
}

/** The name that users type: `run` may be left out. */
export function titleOf(name: CommandName): string {
  return name === 'run' ? 'capture' : `capture ${name}`;
}

interface Operand {
  readonly name: string;
  readonly must: boolean;
  /** `<file>...`: one or more words. At most one operand of a command is repeated. */
  readonly isRepeated: boolean;
}

/** The operands of a command in order. */
export function operandsOf(name: CommandName): readonly Operand[] {
  const [words = ''] = usageOf(name).split('--');
  return [...words.matchAll(/([<[])(\w+)[>\]](\.\.\.)?/g)].map(([, bracket, word = '', dots]) => ({
    name: word,
    must: bracket === '<',
    isRepeated: dots !== undefined,
  }));
}
