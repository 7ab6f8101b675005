// npm run simulate -- [--seconds 120] [--seed 7] [--schedules 100] [--jobs 2] [--trace] [--shrink] [--stop] [--plan <json>]
// npm run simulate -- --found
// npm run simulate -- --mutants [part of a name] [--seconds 600]
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundle } from './bundle.mjs';
import { seekMutants } from './mutants.mjs';

const words = process.argv.slice(2);
const BUNDLED = 'CAPTURE_SIMULATE_BUNDLE';
const load = createRequire(import.meta.url);
const valueOf = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : undefined);

if (process.env[BUNDLED] !== undefined) await tryShare(process.env[BUNDLED]);
else if (words.includes('--mutants')) {
  const name = valueOf('--mutants');
  const isFound = await seekMutants(
    name?.startsWith('--') ? undefined : name,
    Number(valueOf('--seconds') ?? 600),
  );
  process.exitCode = isFound ? 0 : 1;
} else await simulate();

async function simulate() {
  const dir = path.resolve('node_modules/.cache/capture-simulate');
  mkdirSync(dir, { recursive: true });
  const file = path.join(dir, `main-${process.pid}.cjs`);
  await bundle(file);
  try {
    const { readArguments, search, report } = load(file);
    const args = readArguments(words);
    const jobs = args.isAlone ? 1 : Number(valueOf('--jobs') ?? os.availableParallelism());
    const shares = jobs === 1 ? [await search(args)] : await onCores(jobs, file);
    process.exitCode = report(shares) ? 0 : 1;
  } finally {
    rmSync(file);
  }
}

/** Each process tries every n-th seed. A process that ends without a result counts as a failure. */
async function onCores(jobs, file) {
  const shares = Array.from({ length: jobs }, async (_, nth) => {
    const child = fork(fileURLToPath(import.meta.url), [...words, '--share', `${nth}/${jobs}`], {
      env: { ...process.env, [BUNDLED]: file },
      serialization: 'advanced',
    });
    let share;
    child.on('message', (message) => (share = message));
    const [status, signal] = await once(child, 'close');
    if (share === undefined) throw new Error(`a process of the simulator ended with ${signal ?? status}`);
    return share;
  });
  return Promise.all(shares);
}

async function tryShare(file) {
  const { readArguments, search } = load(file);
  const share = await search(readArguments(words));
  process.send(share, () => process.disconnect());
}
