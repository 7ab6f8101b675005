// Dies at every step of every I/O of push, record, reclaim, restore, claim and prune, and at random moments;
// after each death the invariants of checks.ts are looked at. CRASH_SEED repeats a run.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startS3Server, type S3Server } from '../../s3-server/server.ts';
import { runChain, type Link } from './chain.ts';
import { anyMoment, everyPoint, FAILPOINTS, seeded, type ChainPlan, type StoreKind } from './sweep.ts';
import { fileView, s3View } from './view.ts';

/** Most of a run is waiting: for the disk, the task, the quiet before a deletion. */
const AT_ONCE = 4;
const DEATHS_IN_ALL = 1000;
const RANDOM_ON_FILES = 200;
/** So many more at a time, until there are enough. */
const RANDOM_MORE = 48;
const BOUND_MS = 20 * 60_000;
const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000);
const random = seeded(seed);

let root: string;
let bin: string;
let server: S3Server;
const deaths: Link[] = [];

beforeAll(async () => {
  console.log(`crash: seed ${seed}`);
  root = fs.mkdtempSync('/dev/shm/capture-crash-');
  bin = await buildArmed();
  server = await startS3Server();
});
afterAll(async () => {
  await server.stop();
  fs.rmSync(path.dirname(path.dirname(bin)), { recursive: true, force: true });
  fs.rmSync(root, { recursive: true, force: true });
});

/** The program whose failpoints kill; below node_modules, where it finds its native packages. */
async function buildArmed(): Promise<string> {
  fs.mkdirSync('node_modules/.cache', { recursive: true });
  const dir = fs.mkdtempSync(path.resolve('node_modules/.cache/capture-crash-'));
  const armed = 'test/real/crash/failpoint.ts';
  await promisify(execFile)(process.execPath, ['build.mjs', path.join(dir, 'dist'), armed]);
  fs.mkdirSync(path.join(dir, 'bin'));
  fs.copyFileSync('bin/capture', path.join(dir, 'bin', 'capture'));
  return path.join(dir, 'bin', 'capture');
}

/** Runs all chains; resolves to what was found wrong. */
async function run(store: StoreKind, plans: readonly ChainPlan[]): Promise<readonly string[]> {
  const failures: string[] = [];
  const queue = plans.values();
  let count = 0;
  const work = async (): Promise<void> => {
    for (const { links, big } of queue) {
      const dir = fs.mkdtempSync(path.join(root, `${store}-`));
      const view =
        store === 'file' ? fileView(path.join(dir, 'store')) : s3View(server, `${path.basename(dir)}/`);
      const end = await runChain({ bin, dir, view, links, big });
      count += end.deaths.length;
      deaths.push(...end.deaths);
      // Said at once: the sweep is long, and what is wrong may make the rest of it wrong.
      if (end.failure !== undefined) console.log(end.failure);
      if (end.failure !== undefined) failures.push(end.failure);
      else fs.rmSync(dir, { recursive: true, force: true });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  console.log(`crash: ${count} deaths on ${store}`);
  return failures;
}

describe('nothing that was closed and reported safe is lost, whatever dies', { timeout: BOUND_MS }, () => {
  it('at any step, on a file store', async () => {
    expect(await run('file', everyPoint('file', random))).toEqual([]);
  });

  it('at any step, on S3', async () => {
    expect(await run('s3', everyPoint('s3', random))).toEqual([]);
  });

  it('at a random moment, on a file store', async () => {
    expect(await run('file', anyMoment(RANDOM_ON_FILES, random))).toEqual([]);
  });

  it('at a random moment, on S3', async () => {
    do expect(await run('s3', anyMoment(RANDOM_MORE, random))).toEqual([]);
    while (deaths.length < DEATHS_IN_ALL);
  });

  it('and every step was died at', () => {
    const reached = new Set(deaths.map((link) => (link.kind === 'failpoint' ? link.at : '')));
    expect(FAILPOINTS.filter((at) => !reached.has(at))).toEqual([]);
  });
});
