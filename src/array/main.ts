// The program of the commands on a whole array.
import { runProgram } from '../cli/program.ts';
import { ARRAY_COMMANDS } from './commands.ts';

export const main = (): Promise<never> => runProgram(ARRAY_COMMANDS);
