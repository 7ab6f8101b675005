// The first file of the commands for many tasks: dist/<name>.cjs loads the ES module dist/<name>-program.mjs. It is no
// ES module itself: Node would have to compile its loader of ES modules, as the flags of V8 are not reset yet.
// bootstrap.ts must stay the first import: see there.
import { besideUs, damaged, exitDamaged, mainOf } from './bootstrap.ts';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

void start(besideUs(`${path.basename(import.meta.filename, '.cjs')}-program.mjs`));

async function start(file: string): Promise<void> {
  const main = await import(pathToFileURL(file).href)
    .then(mainOf<() => void>)
    .catch((error: unknown) => exitDamaged(damaged(file, error)));
  main();
}
