// What others have written may take half of the heap, where it is kept: each of its kinds, in the program of the build, with a
// small heap and a store that lists without end. Without the bound V8 ends the process by a signal, with a trace.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { outputPrefix } from '../../src/model/format/output-keys.ts';
import { openPlace, type Place } from '../e2e/support.ts';
import { openS3Place, type S3Place } from '../e2e/s3-place.ts';
import type { Fault } from '../s3-server/faults.ts';

const TOO_MANY = /there are more than \d+, which fit into memory\s+try: .*use another prefix/;
const SMALL_MB = 24;

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function inSmallHeap(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  heapMb = SMALL_MB,
): Promise<Ended> {
  const child: ChildProcess = spawn(
    process.execPath,
    [`--max-old-space-size=${heapMb}`, '--max-semi-space-size=1', path.resolve('dist', program), ...args],
    { cwd: place.work, env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (text) => (stdout += String(text)));
  child.stderr?.on('data', (text) => (stderr += String(text)));
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, stdout, stderr };
}

let place: Place;

describe('a store that lists without end', () => {
  let s3: S3Place;
  beforeEach(async () => {
    s3 = await openS3Place();
    ({ place } = s3);
  });
  afterEach(() => s3.close());

  /** Of all keys that begin so, page after page, as many as are asked for. */
  function listEndlessly(prefix: string): void {
    let nth = 0;
    s3.server.fault = ({ operation, query }): Fault | undefined => {
      if (operation !== 'ListObjectsV2' || query.get('prefix') !== `run/${prefix}`) return undefined;
      const keys = Array.from({ length: 1000 }, () => {
        nth += 1;
        const key = `run/${prefix}${String(nth).padStart(9, '0')}`;
        return `<Contents><Key>${key}</Key><Size>1</Size><ETag>"x"</ETag></Contents>`;
      });
      const more = `<IsTruncated>true</IsTruncated><NextContinuationToken>${nth}</NextContinuationToken>`;
      return {
        kind: 'answer',
        status: 200,
        body: `<ListBucketResult>${more}${keys.join('')}</ListBucketResult>`,
      };
    };
  }
  const where = (): readonly string[] => [s3.at[1] ?? '', '--path-style', '--task-name=sh'];

  it('of output: capture logs', async () => {
    listEndlessly(outputPrefix({ taskName: 'sh', index: '0' }));
    const { status, stderr } = await inSmallHeap('array.cjs', ['logs', ...where(), '--index=0'], s3.env);
    expect(stderr).toMatch(TOO_MANY);
    expect(stderr).toContain('pieces of output');
    expect(status).toBe(69);
  });

  it('of older copies: capture ls', async () => {
    for (const text of ['one', 'two']) {
      const run = s3.run(['-r', 'r.dat'], `echo ${text} >r.dat`);
      expect(await run.status, run.stderr()).toBe(0);
    }
    listEndlessly('r.dat.0.~');
    const { status, stderr } = await inSmallHeap('array.cjs', ['ls', ...where(), '--index=0'], s3.env);
    expect(stderr).toMatch(TOO_MANY);
    expect(stderr).toContain('r.dat');
    expect(status).toBe(69);
  });
});

describe('a directory of very many long names', () => {
  beforeEach(() => {
    place = openPlace({ below: '/dev/shm' });
  });
  afterEach(() => place.close());

  /** Their names alone take more than the heap. */
  function fill(dir: string, names = 80_000, make = 'os.mknod'): void {
    fs.mkdirSync(dir, { recursive: true });
    const command = `import os
for i in range(${names}):
    ${make}('x' * 240 + str(i))`;
    expect(spawnSync('python3', ['-c', command], { cwd: dir }).status).toBe(0);
  }

  it('is too much for a listing, and the process says so', async () => {
    fill(path.join(place.store, '.capture/t'), 50_000);
    const { status, stderr } = await inSmallHeap('array.cjs', ['status', place.store, '--task-name=t'], {});
    expect(stderr).toMatch(TOO_MANY);
    expect(stderr).toContain('names in ');
    expect(status).toBe(69);
  });

  it('is too much for one put, which says so', async () => {
    fill(path.join(place.work, 'data'));
    const { status, stderr } = await inSmallHeap('array.cjs', ['put', 'data', place.store], {});
    expect(stderr).toMatch(/files to put: there are more than \d+, which fit into memory\s+try: put fewer/);
    expect(status).toBe(69);
  });

  it('is too much for --dry-run if all are declared, which says so', async () => {
    fill(place.work);
    const args = ['--to', place.store, '--index=1', '--task-name=t', '-r', '*', '--dry-run', '--', 'true'];
    // The program of a run alone takes more than a third of the small one.
    const { status, stderr } = await inSmallHeap('capture.cjs', args, {}, 2 * SMALL_MB);
    expect(stderr).toMatch(/declared files in .*: there are more than \d+, which fit into memory/);
    expect(status).toBe(69);
  });

  it('of directories is too much for a walk, which says that it has not seen all', async () => {
    fill(place.work, 80_000, 'os.mkdir');
    const args = [
      '--to',
      place.store,
      '--index=1',
      '--task-name=t',
      '-r',
      '**/r.dat',
      '--dry-run',
      '--',
      'true',
    ];
    const { status, stdout } = await inSmallHeap('capture.cjs', args, {}, 2 * SMALL_MB);
    expect(stdout).toMatch(/cannot read x{240}\d+\n/);
    expect(status).toBe(0);
  });

  it('is no matter to the launcher, which looks among them for declared files that are still written', async () => {
    fill(place.work);
    // Its own file is elsewhere: then the kernel is asked which declared files have a writer.
    const task = `echo 1 >r.dat; setsid sleep 60 >"${place.dir}/log" 2>&1 </dev/null &`;
    const args = ['--to', place.store, '--index=1', '--task-name=t', '-r', '*.dat', '--', 'sh', '-c', task];
    const { status, stderr } = await inSmallHeap('capture.cjs', args, {});
    expect(status, stderr).toBe(0);
    expect(fs.readFileSync(path.join(place.store, 'r.dat.1'), 'utf8')).toBe('1\n');
  });
});
