// A store that goes away under the run, or comes back empty: nothing is made in its place, no local file is deleted,
// and the exit status is no success. Each run waits for the store; SIGTERM in the drain ends the waiting.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { removeWritten } from '../support/remove-written.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { BIN, isAlive, openPlace, sidecarOf, until, type Place, type Run } from './support.ts';

const FILES = ['r.1', 'r.2', 'r.3', 'r.4'];
const OPTIONS = ['--index', '3', '--task-name', 't', '-r', 'r.*', '--grace', '3s'] as const;
/** Two results, and two more when the test says so. */
const TASK = 'echo 1 > r.1; echo 2 > r.2; until [ -e go ]; do sleep 0.02; done; echo 3 > r.3; echo 4 > r.4';

const results = (dir: string): readonly string[] =>
  fs.readdirSync(dir).filter((name) => name.startsWith('r.'));
const stop = (run: Run): boolean => process.kill(run.pid, 'SIGTERM');

describe('a directory store', () => {
  let place: Place;
  beforeEach(() => {
    place = openPlace();
  });
  afterEach(() => place.close());
  const away = (): string => `${place.store}.away`;
  const start = async (...options: readonly string[]): Promise<Run> => {
    const run = place.run([...OPTIONS, ...options], ['sh', '-c', TASK]);
    await until(() => place.keys().length === 2, 'the first two results');
    return run;
  };
  const goOn = (): void => fs.writeFileSync(place.at('go'), '');

  it.each<[string, () => void]>([
    ['is moved away', () => fs.renameSync(place.store, away())],
    ['is removed', () => removeWritten(place.store)],
    [
      'becomes an empty one',
      () => {
        fs.renameSync(place.store, away());
        fs.mkdirSync(place.store);
      },
    ],
  ])('that %s is not created again: all files stay, and the run ends with 74', async (_, goes) => {
    const run = await start();
    goes();
    goOn();
    await run.says(/the store does not work: .*not there any more.* for up to 1 min/);
    await run.says(/try: mount it again/);
    stop(run);
    expect(await run.status, run.stderr()).toBe(74);
    expect(results(place.work)).toEqual(FILES);
    expect(run.stderr()).toContain('the last record is NOT written');
    if (fs.existsSync(place.store)) expect(fs.readdirSync(place.store)).toEqual([]);
  });

  it('that comes back takes the rest, and the run is done', async () => {
    const run = await start();
    fs.renameSync(place.store, away());
    goOn();
    await run.says('the store does not work');
    fs.renameSync(away(), place.store);
    expect(await run.status, run.stderr()).toBe(0);
    expect(place.keys()).toHaveLength(4);
    expect(results(place.work)).toEqual([]);
  });

  it('is not created again by the sidecar that replaces a dead one', async () => {
    const run = await start();
    fs.renameSync(place.store, away());
    const sidecar = sidecarOf(run.pid) ?? -1;
    process.kill(sidecar, 'SIGKILL');
    await until(() => !isAlive(sidecar), 'the end of the sidecar');
    await run.says(/is not the store that it was: the claim of attempt 1 .* is gone from it/);
    await run.says('nothing is stored any more');
    goOn();
    expect(await run.status, run.stderr()).toBe(74);
    expect(fs.existsSync(place.store)).toBe(false);
    expect(results(place.work)).toEqual(FILES);
  });
});

describe('a bucket that is empty after its server was restarted', () => {
  let s3: S3Place;
  beforeEach(async () => {
    s3 = await openS3Place();
  });
  afterEach(() => s3.close());
  const start = async (task = TASK): Promise<Run> => {
    const run = s3.run(OPTIONS, task);
    await until(() => s3.keys().length === 2, 'the first two results');
    s3.server.forgetAll();
    return run;
  };

  it('gets no last record, all files stay, and the run ends with 74', async () => {
    const run = await start();
    fs.writeFileSync(s3.place.at('go'), '');
    await run.says(/is not the store that it was: the claim of attempt 1 .*\n {2}try: bring the store back/);
    stop(run);
    expect(await run.status, run.stderr()).toBe(74);
    expect(results(s3.place.work)).toEqual(FILES);
    expect(s3.records().map(({ record }) => record.kind)).not.toContain('done');
  });

  it('is no reason to run a preempted task again: 74, not 75', async () => {
    const run = await start();
    stop(run);
    await run.says('is not the store that it was');
    expect(await run.status, run.stderr()).toBe(74);
    expect(run.stderr()).toContain('not to be run again: what was stored is not in the store any more');
    expect(results(s3.place.work)).toEqual(['r.1', 'r.2']);
  });
});

describe('answers that are not those of S3', () => {
  let s3: S3Place;
  beforeEach(async () => {
    s3 = await openS3Place();
  });
  afterEach(() => s3.close());
  const PORTAL = { kind: 'answer', status: 200, body: '<html>Welcome</html>' } as const;

  const exists = (name: string): boolean => fs.existsSync(s3.place.at(name));

  it('to each HEAD fence nobody: the task ends, and all is stored', async () => {
    s3.server.fault = ({ operation }) => (operation === 'HeadObject' && exists('begun') ? PORTAL : undefined);
    // All by the shell itself: after the death of another process a result has no name before a HEAD.
    const task = ': > begun; echo 1 > k.chk; echo 1 > r.dat; echo ended';
    const run = s3.run(['-r', 'r.dat', '-k', 'k.chk'], task);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('ended\n');
    expect(s3.keys()).toEqual(['k.chk.sh.0.1-1', 'r.dat.0']);
  });

  it('to a PUT are no success: a flush says so, and when they end all is stored', async () => {
    s3.server.fault = ({ operation }) =>
      operation === 'PutObject' && exists('begun') && !exists('flushed') ? PORTAL : undefined;
    const task = `touch begun; echo 1 > r.dat; ${BIN} flush --timeout 1s; echo "flush $?"; touch flushed`;
    const run = s3.run(['-r', 'r.dat'], task);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('flush 74\n');
    expect(s3.text('r.dat.0')).toBe('1\n');
  });

  it.each([
    ['from the start', () => true],
    ['from its own claim on', () => s3.records().some(({ record }) => record.attempt === 2)],
  ])('to a listing hide nothing that is stored: %s it is waited for until it shows all', async (_, lags) => {
    expect(await s3.run(['-k', 'k.chk'], 'echo state > k.chk').status).toBe(0);
    s3.place.freshWork();
    const empty = '<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>';
    let hidden = 0;
    s3.server.fault = ({ operation }) =>
      operation === 'ListObjectsV2' && lags() && (hidden += 1) <= 3
        ? { kind: 'answer', status: 200, body: empty }
        : undefined;
    const run = s3.run(['-k', 'k.chk'], 'cat k.chk; echo "$CAPTURED_RESTORED"');
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('state\n1-1\n');
  });
});
