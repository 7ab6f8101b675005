// One command on the server, which ends by itself: how long it takes, and what it costs. Its requests are those since the
// server was last reset or planted.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { childrenOf, tree, watchPeak } from './processes.mjs';
import { timesS, WRAPPER } from './running.mjs';
import { envOf } from './server.mjs';

/** Some of them end within a second. */
const LOOK_EVERY_MS = 20;

/** Runs `argv` in `dir/work`; `dir` is the caller's. Throws unless it ends with 0. `output` is what it printed. */
export async function runCommand(server, argv, dir, lookEveryMs = LOOK_EVERY_MS) {
  const work = path.join(dir, 'work');
  fs.mkdirSync(work, { recursive: true });
  const output = path.join(dir, 'output');
  const to = fs.openSync(output, 'w');
  const before = await server.ask('requests');
  const startMs = performance.now();
  const child = spawn('sh', ['-c', WRAPPER, 'sh', ...argv], {
    cwd: work,
    env: { ...envOf(server, dir), STATE: dir },
    stdio: ['ignore', to, 'inherit'],
  });
  fs.closeSync(to);
  const peak = watchPeak(() => childrenOf(child.pid).flatMap((pid) => tree(pid)), lookEveryMs);
  const [status] = await once(child, 'close').finally(() => peak.close());
  const seconds = (performance.now() - startMs) / 1000;
  if (status !== 0) throw new Error(`${argv.join(' ')} ended with ${status}`);
  return {
    seconds,
    cpuS: timesS(dir),
    peakMiB: peak.mostMiB,
    requests: (await server.ask('requests')) - before,
    output: fs.readFileSync(output, 'utf8'),
  };
}
