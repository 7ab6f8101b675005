// The commands that look at the whole of an array, and at what is stored of it. They are a program of their own (src/array),
// which bin/capture chooses by the first word: here are only their names, for help and hints.

/** Each with what it is for, as the help of capture says it in one line. */
export const ARRAY_COMMANDS = {
  status: 'the state of each index of an array: what is done, failed, missing',
  gather: 'the results of all indices in one directory, decompressed and checked',
  ls: 'what is stored of one index, object by object',
  cat: 'one result on stdout, decompressed and checked',
  verify: 'is everything that the records name there, and whole?',
  rm: 'deletes all that is stored of an index',
  prune: 'deletes checkpoints of what is done, and what deaths have left',
  logs: 'what the task of an index wrote to stdout and stderr (--log-output)',
  report: 'one page that shows the whole array, and what was saved and lost',
  doctor: 'before the first job: will it work on this node, and with this store?',
  wait: 'until every index of an array is done or has failed',
} as const;

export type ArrayCommandName = keyof typeof ARRAY_COMMANDS;

export const ARRAY_COMMAND_NAMES = Object.keys(ARRAY_COMMANDS) as readonly ArrayCommandName[];
