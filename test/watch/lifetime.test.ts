// A process with a watcher in it ends when it wants to, and leaves nothing open.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { text } from 'node:stream/consumers';
import { build } from 'esbuild';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { freshDirectory, watched } from './support.ts';

// Beside the native packages, which it loads.
const built = path.resolve(import.meta.dirname, '../../node_modules/.cache/watch-and-end.mjs');

beforeAll(async () => {
  await build({
    entryPoints: [path.join(import.meta.dirname, 'fixtures', 'watch-and-end.ts')],
    outfile: built,
    bundle: true,
    format: 'esm',
    platform: 'node',
    packages: 'external',
    define: { CAPTURE_ROOT: JSON.stringify(path.resolve('.')) },
  });
  return () => fs.rmSync(built);
});

interface End {
  readonly code: number | null;
  readonly printed: string;
}

async function end(reader: string, way: string): Promise<End> {
  const child = spawn(process.execPath, [built, freshDirectory(), reader, way], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [printed] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  return { code: child.exitCode, printed };
}

describe.each(['epoll', 'poll'])('with the reader on %s', (reader) => {
  it('close() leaves no descriptor, and nothing that keeps the process alive', async () => {
    const { code, printed } = await end(reader, 'close');
    const [before, after] = printed.trim().split(' ');
    expect({ code, after }).toEqual({ code: 0, after: before });
    expect(Number(before)).toBeGreaterThan(0);
  });

  it('process.exit() inside a callback ends the process with its status', async () => {
    expect(await end(reader, 'exit')).toEqual({ code: 7, printed: '' });
  });

  it('an uncaught error ends the process', async () => {
    expect(await end(reader, 'throw')).toEqual({ code: 1, printed: '' });
  });
});

describe('after close()', () => {
  it('nothing is reported, and a drain does nothing', async () => {
    const { dir, watcher, drained } = await watched();
    fs.writeFileSync(`${dir}/r.dat`, 'x');
    await watcher.close();
    expect(drained()).toEqual([]);
  });

  it('the probe of the self-test is gone', async () => {
    const { dir } = await watched();
    expect(fs.readdirSync(`${dir}/.capture`)).toEqual([]);
  });
});

it('an idle watcher keeps no timer', async () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const { drained, dir } = await watched();
  fs.symlinkSync('elsewhere', `${dir}/r.dat`);
  expect(drained()).toEqual(['link r.dat']);
  // Right after the self-test the reader pauses once. A timer that is kept never lets this end.
  while (timers() > before) await nextTurn();
  expect(timers()).toBe(before);
});
