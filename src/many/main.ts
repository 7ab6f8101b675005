// The program of `capture array` and `capture template`.
import { runProgram } from '../cli/program.ts';
import { MANY_COMMANDS } from './commands.ts';

export const main = (): Promise<never> => runProgram(MANY_COMMANDS);
