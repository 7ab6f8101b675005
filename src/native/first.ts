// The first file of each process and of each worker but the launcher's: dist/<name>.cjs loads the program of its own name.
import path from 'node:path';
import { loadProgram } from './program.ts';

loadProgram(path.basename(import.meta.filename, '.cjs'));
