// Dies at every step of every I/O of push, record, reclaim, restore, claim and prune, and at random moments,
// until there are CRASH_DEATHS deaths (1,000 if not given). After each death the invariants of checks.ts are looked at.
// CRASH_SEED repeats a run.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startAzureServer } from '../../azure/server.ts';
import { startGcsServer } from '../../gcs-server/server.ts';
import { startS3Server } from '../../s3-server/server.ts';
import { openSftpServer } from '../sftp-server.ts';
import { runChain, type ChainEnd } from './chain.ts';
import type { Death } from './run.ts';
import { anyMoment, everyPoint, FAILPOINTS, seeded, type ChainPlan, type StoreKind } from './sweep.ts';
import { newKey, opener, sealedOptions } from './sealed-view.ts';
import { azureView, fileView, gcsView, s3View, sftpView, type View } from './view.ts';

/** Half of a run is waiting: for the disk, the task, the quiet before a deletion. */
const AT_ONCE = 4;
const DEATHS_IN_ALL = Number(process.env['CRASH_DEATHS'] ?? 1000);
const RANDOM_RUNS_ON_FILES = 36;
/** What dies between their steps is the same in other words. */
const RANDOM_RUNS_ON_OTHERS = 8;
/** So many more at a time, until there are enough. */
const RANDOM_RUNS_MORE = 36;
/** For a hang: each of the four parts takes one to three minutes on two cores. */
const BOUND_MS = 15 * 60_000;
const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000);

let root: string;
let bin: string;
const deaths: Death[] = [];

beforeAll(async () => {
  console.log(`crash: seed ${seed}`);
  root = fs.mkdtempSync('/dev/shm/capture-crash-');
  bin = await buildArmed();
}, BOUND_MS);
afterAll(() => {
  fs.rmSync(path.dirname(path.dirname(bin)), { recursive: true, force: true });
  fs.rmSync(root, { recursive: true, force: true });
});

/** The program whose failpoints kill. */
async function buildArmed(): Promise<string> {
  fs.mkdirSync('node_modules/.cache', { recursive: true });
  const dir = fs.mkdtempSync(path.resolve('node_modules/.cache/capture-crash-'));
  const armed = 'test/real/crash/failpoint.ts';
  fs.symlinkSync('../..', path.join(dir, 'node_modules'));
  await promisify(execFile)(process.execPath, ['build.mjs', path.join(dir, 'dist'), armed]);
  fs.mkdirSync(path.join(dir, 'bin'));
  fs.copyFileSync('bin/capture', path.join(dir, 'bin', 'capture'));
  return path.join(dir, 'bin', 'capture');
}

/** Runs all chains; resolves to what was found wrong. */
async function run(store: StoreKind, plans: readonly ChainPlan[]): Promise<readonly string[]> {
  const failures: string[] = [];
  const queue = plans.entries();
  let count = 0;
  const work = async (): Promise<void> => {
    for (const [n, plan] of queue) {
      const end = await runOn(store, plan);
      count += end.deaths.length;
      deaths.push(...end.deaths);
      if (end.failure === undefined) continue;
      const failure = `CRASH_SEED=${seed}, chain ${n + 1} of ${plans.length} on ${store}: ${end.failure}`;
      // Said at once: the sweep is long, and what is wrong may make the rest of it wrong.
      console.log(failure);
      failures.push(failure);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  console.log(`crash: ${count} deaths on ${store}`);
  return failures;
}

/** Each chain has a store of its own. */
async function runOn(store: StoreKind, plan: ChainPlan): Promise<ChainEnd> {
  const dir = fs.mkdtempSync(path.join(root, `${store}-`));
  const { view, stop } = await viewOf(store, dir);
  try {
    return await runChain({ ...plan, bin, dir, view });
  } finally {
    await stop?.();
    fs.rmSync(dir, { recursive: true, force: true });
  }
}

async function viewOf(
  store: StoreKind,
  dir: string,
): Promise<{ readonly view: View; readonly stop?: () => Promise<void> }> {
  const files = path.join(dir, 'store');
  if (store === 'file') return { view: fileView(files) };
  if (store === 'encrypted') {
    const key = await newKey(path.join(dir, 'run.key'));
    return { view: { ...fileView(files, opener(key)), options: sealedOptions(key) } };
  }
  if (store === 'gs') {
    const server = await startGcsServer();
    return { view: gcsView(server, 'lab/'), stop: () => server.stop() };
  }
  if (store === 'azure') {
    const server = await startAzureServer();
    return { view: azureView(server, 'lab/'), stop: () => server.stop() };
  }
  if (store === 'sftp') {
    const server = await openSftpServer();
    return { view: sftpView(server, 'lab'), stop: () => server.close() };
  }
  const server = await startS3Server();
  return { view: s3View(server, 'lab/'), stop: () => server.stop() };
}

describe('nothing that was closed and reported safe is lost, whatever dies', { timeout: BOUND_MS }, () => {
  it('at any step, on a file store', async () => {
    expect(await run('file', everyPoint('file', seeded(seed)))).toEqual([]);
  });

  it('at any step, on S3', async () => {
    expect(await run('s3', everyPoint('s3', seeded(seed + 1)))).toEqual([]);
  });

  it('at a random moment, on a file store', async () => {
    expect(await run('file', anyMoment(RANDOM_RUNS_ON_FILES, seeded(seed + 2)))).toEqual([]);
  });

  it('at a random moment, on Google Cloud Storage', async () => {
    expect(await run('gs', anyMoment(RANDOM_RUNS_ON_OTHERS, seeded(seed + 4)))).toEqual([]);
  });

  it('at a random moment, on Azure Blob Storage', async () => {
    expect(await run('azure', anyMoment(RANDOM_RUNS_ON_OTHERS, seeded(seed + 5)))).toEqual([]);
  });

  it('at a random moment, on a server with SSH', async () => {
    expect(await run('sftp', anyMoment(RANDOM_RUNS_ON_OTHERS, seeded(seed + 7)))).toEqual([]);
  });

  it(`at a random moment, on S3, until there are ${DEATHS_IN_ALL} deaths in all`, async () => {
    const random = seeded(seed + 3);
    do expect(await run('s3', anyMoment(RANDOM_RUNS_MORE, random))).toEqual([]);
    while (deaths.length < DEATHS_IN_ALL);
  });

  it('at a random moment, when all of it is encrypted', async () => {
    expect(await run('encrypted', anyMoment(RANDOM_RUNS_ON_OTHERS, seeded(seed + 6)))).toEqual([]);
  });

  it('and every step was died at', () => {
    const reached = new Set(deaths.map((death) => (death.kind === 'failpoint' ? death.at : '')));
    expect(FAILPOINTS.filter((at) => !reached.has(at))).toEqual([]);
  });
});
