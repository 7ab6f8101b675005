// A container may run as any user: one whom the machine does not know has neither a name nor a home.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { programForAll, tmpdirForAll } from '../support/other-user.ts';
import { BIN, openPlace, type Place, type Run } from './support.ts';

const UNKNOWN = 50_001;

let place: Place;
beforeEach(() => {
  place = openPlace({ below: tmpdirForAll() });
  fs.chmodSync(place.dir, 0o755);
  fs.chownSync(place.work, UNKNOWN, UNKNOWN);
});
afterEach(() => place.close());

function asUnknown(args: readonly string[], env: readonly string[] = []): Run {
  const user = ['setpriv', `--reuid=${UNKNOWN}`, `--regid=${UNKNOWN}`, '--clear-groups'];
  return place.exec([...user, 'env', '-u', 'HOME', ...env, programForAll(BIN, place.dir), ...args]);
}

const isRoot = process.getuid?.() === 0;

it.runIf(isRoot)('submits as a number', async () => {
  const queue = ['--queue', 'redis://127.0.0.1/lab', '--dry-run'];
  const run = asUnknown(['submit', ...queue, '--to', 'store', '--array', '0-1', '-r', 'r', '--', 'true']);
  expect(await run.status, run.stderr()).toBe(0);
});

it.runIf(isRoot)('looks for the keys of a bucket', async () => {
  const env = ['AWS_EC2_METADATA_DISABLED=true', 'AWS_ENDPOINT_URL_S3=http://127.0.0.1:1'];
  const run = asUnknown(['ls', 's3://bucket/prefix', '0', '--task-name', 'sh', '--path-style'], env);
  expect(await run.status).toBe(69);
  expect(run.stderr()).toContain('no credentials found');
});
