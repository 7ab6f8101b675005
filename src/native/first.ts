// The first file of the process of a sidecar and of `capture flush`: dist/<name>.cjs loads dist/<name>-program.cjs.
import { loadCompiled } from './compiled.ts';
import path from 'node:path';

loadCompiled<() => void>(`${path.basename(import.meta.filename, '.cjs')}-program`)();
