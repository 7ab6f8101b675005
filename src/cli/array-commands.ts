// The commands that look at the whole of an array, and at what is stored of it. They are a program of their own (src/array),
// which bin/capture chooses by the first word: here are only their names, for help and hints.

interface ArrayCommandLine {
  /** Behind `capture <name>`. */
  readonly operands: string;
  /** What it is for, as the help of capture says it in one line. */
  readonly what: string;
}

export const ARRAY_COMMANDS = {
  status: {
    operands: '<url> [index]',
    what: 'the state of each index of an array: done, failed, missing, ...',
  },
  gather: { operands: '<url> <directory>', what: 'the results of all indices in one directory' },
  ls: { operands: '<url> [index]', what: 'what is stored of one index, object by object' },
  cat: { operands: '<url> <index> <path>', what: 'one result on stdout, decompressed and checked' },
  verify: { operands: '<url>', what: 'is everything that the records name there, and whole?' },
  rm: { operands: '<url>', what: 'deletes all that is stored of an index' },
  prune: { operands: '<url>', what: 'deletes checkpoints of what is done, and what deaths have left' },
  logs: { operands: '<url> [index]', what: 'what the task wrote to stdout and stderr (--log-output)' },
  report: { operands: '<url>', what: 'one page that shows the whole array, what was saved and lost' },
  doctor: { operands: '[url]', what: 'before the first job: will it work here, and with this store?' },
  wait: { operands: '<url>', what: 'until every index of an array is done or has failed' },
} as const satisfies Readonly<Record<string, ArrayCommandLine>>;

export type ArrayCommandName = keyof typeof ARRAY_COMMANDS;

export const ARRAY_COMMAND_NAMES = Object.keys(ARRAY_COMMANDS) as readonly ArrayCommandName[];
