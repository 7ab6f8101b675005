// The commands on a queue. A new command has its file here, its line in this list, and one in cli/commands.ts.
import type { Command } from '../../cli/command.ts';
import { commandsBehind } from '../../cli/commands.ts';
import type { Commands } from '../../cli/program.ts';
import type { Mistake } from '../../model/errors.ts';
import { EXIT } from '../../model/exit-status.ts';
import { nearestWord } from '../../model/nearest.ts';
import { showPath } from '../../model/path.ts';
import { cancelCommand, drainCommand, retryCommand } from './acts.ts';
import { pauseCommand, resumeCommand } from './pause.ts';
import { statusCommand } from './status.ts';
import { submitCommand } from './submit.ts';
import { uiCommand } from './ui.ts';
import { workerCommand } from './worker.ts';

const NAMES = commandsBehind('queue ').map((name) => name.slice('queue '.length));

/** `capture queue` alone does nothing; its help lists the subcommands. */
const queueCommand: Command = {
  name: 'queue',
  help: {
    about:
      'Shows what is in a queue, and changes it. Each command has its own help: capture queue status --help.',
    statuses: {},
    examples: ['capture queue status --queue redis://head:6379/lab'],
  },
  options: [],
  firstWordMistake: whichCommand,
  read: ({ operands, values }) => values.refuseAll([whichCommand(operands['command'])]),
  act: async () => EXIT.usage,
};

function whichCommand(word: string | undefined): Mistake {
  return {
    message:
      word === undefined
        ? `capture queue does one of these: ${NAMES.join(', ')}`
        : `unknown command 'queue ${showPath(word)}': there are ${NAMES.join(', ')}`,
    hint: `capture queue ${nearestWord(word ?? '', NAMES) ?? '--help'}`,
  };
}

export const QUEUE_COMMANDS: Commands = [
  submitCommand,
  workerCommand,
  pauseCommand,
  resumeCommand,
  queueCommand,
  statusCommand,
  uiCommand,
  cancelCommand,
  retryCommand,
  drainCommand,
];
