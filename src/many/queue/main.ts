// The program of `capture submit`, `capture worker` and `capture queue`.
import { runProgram } from '../../cli/program.ts';
import { QUEUE_COMMANDS } from './commands.ts';

export const main = (): Promise<never> => runProgram(QUEUE_COMMANDS);
