// The commands that run an array on this machine, and those that print files: to start from, and for shells.
import type { Command } from '../cli/command.ts';
import type { Commands } from '../cli/program.ts';
import { runArray } from './command.ts';
import { completionCommand } from './completion.ts';
import { configCommand } from './config.ts';
import { ARRAY_SPEC, type ArrayRequest } from './line.ts';
import { keygenCommand } from './keygen.ts';
import { templateCommand } from './template.ts';
import { runnerTools } from './tools.ts';

const arrayCommand: Command<ArrayRequest> = {
  ...ARRAY_SPEC,
  act: (request, tools) => runArray(request, runnerTools(tools)),
};

export const MANY_COMMANDS: Commands = [
  arrayCommand,
  templateCommand,
  configCommand,
  keygenCommand,
  completionCommand,
];
