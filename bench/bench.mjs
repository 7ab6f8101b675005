// `npm run bench`: measures capture and its rivals in turn, prints one table for each part and writes JSON and plots.
//   npm run bench -- [part ...] [--rounds n] [--json file] [--tools a,b] [--large] [--tiny]
//   npm run bench -- --report file     prints the tables of a JSON file again
//   npm run bench -- --docs file       writes them, with the plots, into docs/dev/performance/figures.md
// --large adds the largest sizes and the long waits; --tiny makes all so small that only its own test can want it.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { writeDocs } from './lib/docs.mjs';
import { measurePart } from './lib/rounds.mjs';
import { machine } from './lib/machine.mjs';
import { plotsOf } from './lib/plots.mjs';
import { report, reportPart } from './lib/report.mjs';
import { stopAll } from './lib/running.mjs';
import { startServer } from './lib/server.mjs';
import { knownTools, NOT_INSTALLED } from './lib/tools.mjs';
import { arrayGather } from './parts/array-gather.mjs';
import { arrayPrune } from './parts/array-prune.mjs';
import { arrayStatus } from './parts/array-status.mjs';
import { burst } from './parts/burst.mjs';
import { checkpoint } from './parts/checkpoint.mjs';
import { fileSize } from './parts/file-size.mjs';
import { idle } from './parts/idle.mjs';
import { large } from './parts/large.mjs';
import { lastSeconds } from './parts/last-seconds.mjs';
import { latency } from './parts/latency.mjs';
import { manyMemory } from './parts/many-memory.mjs';
import { manyTrivial } from './parts/many-trivial.mjs';
import { memory } from './parts/memory.mjs';
import { neighbour } from './parts/neighbour.mjs';
import { pending } from './parts/pending.mjs';
import { queue } from './parts/queue.mjs';
import { restore } from './parts/restore.mjs';
import { seal } from './parts/seal.mjs';
import { slowdown } from './parts/slowdown.mjs';
import { small } from './parts/small.mjs';
import { start } from './parts/start.mjs';
import { starts } from './parts/starts.mjs';
import { worker } from './parts/worker.mjs';
import { writers } from './parts/writers.mjs';

const PARTS = [
  start,
  latency,
  small,
  writers,
  large,
  checkpoint,
  burst,
  idle,
  memory,
  fileSize,
  pending,
  slowdown,
  restore,
  lastSeconds,
  worker,
  seal,
  starts,
  arrayStatus,
  arrayGather,
  arrayPrune,
  manyMemory,
  manyTrivial,
  neighbour,
  queue,
];

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    json: { type: 'string' },
    report: { type: 'string' },
    docs: { type: 'string' },
    tools: { type: 'string' },
    large: { type: 'boolean', default: false },
    tiny: { type: 'boolean', default: false },
  },
});

const readResults = (file) => JSON.parse(fs.readFileSync(file, 'utf8'));
if (options.report !== undefined) console.log(report(readResults(options.report)));
else if (options.docs !== undefined) writeDocs(readResults(options.docs));
else await measure();

async function measure() {
  const { tools, versions } = knownTools();
  const wantedParts = chosen(
    positionals,
    PARTS.map(({ name }) => name),
  );
  const wantedTools = chosen(options.tools?.split(',') ?? [], [...tools.keys()]);
  const missing = [...tools.values()].filter(({ missing }) => missing !== undefined);
  for (const { name, missing: program } of missing)
    console.log(`not measured: ${name} (${program} is not installed)`);
  const parts = PARTS.filter(({ name }) => wantedParts.includes(name));
  const lacks = ({ needs }) => versions[needs] === NOT_INSTALLED;
  for (const { name, needs } of parts.filter(lacks))
    console.log(`not measured: ${name} (${needs} is not installed)`);
  const results = { ...machine(), versions, large: options.large, minutes: 0, parts: [] };
  const server = await startServer();
  for (const signal of ['SIGINT', 'SIGTERM'])
    process.once(signal, () => {
      void stopAll().finally(() => process.exit(128 + os.constants.signals[signal]));
    });
  try {
    for (const part of parts.filter((one) => !lacks(one))) {
      const settings = {
        rounds: options.rounds === undefined ? part.rounds : Number(options.rounds),
        tools: wantedTools,
        size: options.tiny ? 'tiny' : options.large ? 'large' : 'usual',
      };
      const startMs = performance.now();
      const measured = await measurePart({ part, tools, server }, settings);
      process.stderr.write(`${part.name}: ${Math.ceil((performance.now() - startMs) / 60_000)} min\n`);
      results.parts.push(measured);
      results.minutes = Math.ceil(performance.now() / 60_000);
      console.log(reportPart(measured));
      save(results);
    }
  } finally {
    await server.stop();
  }
}

/** All when none is named. */
function chosen(named, known) {
  const unknown = named.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`${unknown} is none of ${known.join(', ')}`);
  return named.length === 0 ? known : named;
}

/** After each part: what is measured is not lost. */
function save(results) {
  const usual = fileURLToPath(new URL(`results/${results.date.replaceAll(':', '-')}.json`, import.meta.url));
  const file = path.resolve(options.json ?? usual);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, `${JSON.stringify(results, undefined, 2)}\n`);
  for (const { name, svg } of plotsOf(results))
    fs.writeFileSync(file.replace(/(\.json)?$/, `-${name}.svg`), svg);
}
