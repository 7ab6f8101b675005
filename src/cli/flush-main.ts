// The program of `capture flush`.
import { flushCommand } from './flush.ts';
import { runProgram } from './program.ts';

export const main = (): Promise<never> => runProgram([flushCommand]);
