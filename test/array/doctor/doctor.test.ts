// `capture doctor` as a user calls it, on both kinds of stores.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Finding } from '../../../src/doctor/finding.ts';
import { openPlace, type Place, type Run } from '../../e2e/support.ts';
import { openS3Place, type S3Place } from '../../e2e/s3-place.ts';
import { levels, of } from '../../doctor/findings.ts';

interface Told {
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}

async function json(run: Run): Promise<Told & { readonly status: number }> {
  const status = await run.status;
  expect(run.stderr()).toBe('');
  return { status, ...(JSON.parse(run.stdout()) as Told) };
}

describe('on a directory', () => {
  let place: Place;
  beforeEach(() => {
    place = openPlace({ unprivileged: true });
  });
  afterEach(() => place.close());

  it('exits 0 where nothing fails, and leaves neither store nor work directory changed', async () => {
    const { status, ok, findings } = await json(place.capture(['doctor', place.store, '--json']));
    expect({ status, ok }).toEqual({ status: 0, ok: true });
    expect(levels(findings)).toContain('create-only put ok');
    expect(fs.existsSync(place.store)).toBe(false);
    expect(fs.readdirSync(place.work)).toEqual([]);
  });

  it('says each thing in a line, and how many there were', async () => {
    const run = place.capture(['doctor', place.store]);
    expect(await run.status).toBe(0);
    const lines = run.stdout().trimEnd().split('\n');
    expect(lines.slice(0, -1).filter((line) => !/^(OK|WARN|FAIL) +[a-z -]+: |^ {5}try: /.test(line))).toEqual(
      [],
    );
    expect(lines.at(-1)).toMatch(/^\d+ ok, \d+ warnings?, 0 failures$/);
  });

  it('looks at the node alone without a store', async () => {
    const { status, findings } = await json(place.capture(['doctor', '--json']));
    expect(status).toBe(0);
    expect(findings.map(({ check }) => check)).not.toContain('put');
  });

  it('takes store and work directory from the variables of a run', async () => {
    const elsewhere = `${place.dir}/elsewhere`;
    fs.mkdirSync(elsewhere);
    const env = { CAPTURE_TO: place.store, CAPTURE_WORKDIR: elsewhere };
    const { findings } = await json(place.capture(['doctor', '--json'], env));
    expect(of(findings, 'work directory').facts).toMatchObject({ path: elsewhere });
    expect(levels(findings)).toContain('put ok');
  });

  it('fails on a work directory that cannot be written, and says whose it is', async () => {
    fs.chmodSync(place.work, 0o555);
    const { status, findings } = await json(place.capture(['doctor', '--json']));
    expect(status).toBe(1);
    expect(of(findings, 'work directory')).toMatchObject({
      level: 'fail',
      says: expect.stringContaining('its mode 555') as string,
      mend: expect.stringContaining('chmod') as string,
    });
    expect(levels(findings).join()).not.toContain('inotify');
  });

  it('fails on a store that cannot be written, and names no other failure', async () => {
    fs.mkdirSync(place.store, { mode: 0o555 });
    const { status, findings } = await json(place.capture(['doctor', place.store, '--json']));
    expect(status).toBe(1);
    expect(levels(findings).filter((line) => line.endsWith('fail'))).toEqual(['put fail']);
    expect(of(findings, 'put').says).toContain('permission denied (EACCES)');
  });
});

describe('on a bucket', () => {
  let place: S3Place;
  beforeEach(async () => {
    place = await openS3Place();
  });
  afterEach(() => place.close());

  const doctor = (env: NodeJS.ProcessEnv = {}): Run =>
    place.place.capture(['doctor', `s3://${place.server.bucket}/run`, '--path-style', '--json'], {
      AWS_CONFIG_FILE: '/dev/null',
      AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
      AWS_EC2_METADATA_DISABLED: 'true',
      ...place.server.env,
      ...env,
    });

  it('exits 0, and leaves no object', async () => {
    const { status, findings } = await json(doctor());
    expect(status).toBe(0);
    expect(levels(findings)).toContain('uploads ok');
    expect(place.server.keys()).toEqual([]);
    expect(place.server.pendingUploads()).toEqual([]);
  });

  it('exits 1 if the credentials may do nothing', async () => {
    const env = { AWS_ACCESS_KEY_ID: 'AKIADENIED', AWS_SECRET_ACCESS_KEY: 'denied-secret' };
    const { status, ok, findings } = await json(doctor(env));
    expect({ status, ok }).toEqual({ status: 1, ok: false });
    expect(levels(findings).filter((line) => line.endsWith('fail'))).toEqual(['list fail', 'put fail']);
    expect(of(findings, 'put').mend).toContain('PutObject');
  });

  it('exits 1 without credentials, and says so once', async () => {
    const env = { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '' };
    const { status, findings } = await json(doctor(env));
    expect(status).toBe(1);
    expect(levels(findings).filter((line) => line.endsWith('fail'))).toEqual(['credentials fail']);
  });

  it('exits 1 if the environment contradicts itself', async () => {
    const { status, findings } = await json(doctor({ AWS_USE_FIPS_ENDPOINT: 'true' }));
    expect(status).toBe(1);
    expect(of(findings, 'store')).toMatchObject({
      level: 'fail',
      mend: expect.stringContaining('AWS_USE_FIPS_ENDPOINT') as string,
    });
  });

  it('leaves nothing when a signal ends it in the middle', async () => {
    let run: Run | undefined;
    place.server.fault = ({ operation, nth }) => {
      if (operation === 'UploadPart' && nth === 1) run?.child.kill('SIGTERM');
      return undefined;
    };
    run = doctor();
    expect(await run.status).toBe(143);
    expect(place.server.keys()).toEqual([]);
    expect(place.server.pendingUploads()).toEqual([]);
  });
});
