// The fault matrix, second part (docs/fault-matrix.md): the store fails for longer than one request. The user
// reads once that it began and once that it is over; nothing is lost, and what is not stored is named.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Fault } from '../s3-server/faults.ts';
import type { Incoming } from '../s3-server/server.ts';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { openS3Place, writeProfile, type S3Place } from './s3-place.ts';
import { until } from './support.ts';

const OLD = { accessKeyId: 'AKIAOLD', secretAccessKey: 'old-secret', sessionToken: 'old-token' };
const NEW = { accessKeyId: 'AKIANEW', secretAccessKey: 'new-secret', sessionToken: 'new-token' };
const BUSY: Fault = { kind: 'answer', status: 503, code: 'SlowDown' };

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

const count = (text: string, what: RegExp): number => [...text.matchAll(new RegExp(what, 'g'))].length;

/** Every request fails so from the moment when the task runs, until it is lifted. */
function failOnceStarted(
  fault: Fault,
  which: (incoming: Incoming) => boolean = () => true,
): { lift: () => void } {
  let lifted = false;
  s3.server.fault = (incoming) => (!lifted && hasStarted() && which(incoming) ? fault : undefined);
  return { lift: () => (lifted = true) };
}

const hasStarted = (): boolean => fs.existsSync(s3.place.at('started'));
/** Three results and a checkpoint, one after the other. */
const TASK =
  'touch started; for i in 1 2 3; do echo $i > r$i.dat; done; echo step > k.chk; sleep 0.2; exit 0';
const FILES = ['-r', 'r*.dat', '-k', 'k.chk'] as const;

describe('an outage while the task runs costs time, and exit 0', () => {
  it('of a server that is busy for long: one line when it begins, one when it ends', async () => {
    const { lift } = failOnceStarted(BUSY);
    const run = s3.run(FILES, TASK.replace('exit 0', 'while [ ! -e go ]; do sleep 0.05; done'));
    await run.says(/the store does not work: .*503.*; [234] files wait and are tried again\n/);
    fs.writeFileSync(s3.place.at('go'), '');
    await run.says(/the task has ended, and the store does not work: .*for up to 1 h/);
    lift();
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.keys()).toHaveLength(4);
    expect(count(run.stderr(), /: the store does not work/)).toBe(1);
    expect(count(run.stderr(), /the store works again, after \d/)).toBe(1);
    expect(run.stderr()).not.toMatch(/not stored yet|could not be/);
  });

  it('of a network that refuses every connection', async () => {
    const proxy = await startFaultProxy(s3.server.url);
    try {
      s3.server.fault = () => {
        if (hasStarted()) proxy.fault = { kind: 'refuse' };
        return undefined;
      };
      const run = s3.run(FILES, `touch started; sleep 1; ${TASK}`, { AWS_ENDPOINT_URL_S3: proxy.url });
      await until(hasStarted, 'the task');
      proxy.fault = { kind: 'refuse' };
      await run.says(/the store does not work: .*(ECONNRESET|EPIPE|broke the connection)/);
      s3.server.fault = () => undefined;
      proxy.fault = undefined;
      expect(await run.status, run.stderr()).toBe(0);
      expect(s3.keys()).toHaveLength(4);
      expect(run.stderr()).toContain('the store works again');
    } finally {
      await proxy.stop();
    }
  });

  it('of credentials that expire and are renewed in the profile', async () => {
    s3.server.credentials = [OLD, NEW];
    const file = s3.place.dir + '/credentials';
    const run = s3.run(FILES, `${TASK}; sleep 1`, writeProfile(file, OLD));
    await until(hasStarted, 'the task');
    s3.server.credentials = [{ ...OLD, expired: true }, NEW];
    await run.says(/the store does not work: .*credentials expired.*file/);
    await run.says(/try: renew them/);
    writeProfile(file, NEW);
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.keys()).toHaveLength(4);
    expect(run.stderr()).toContain('the store works again');
    expect(run.stderr()).not.toMatch(/old-secret|new-secret|old-token|new-token/);
  });

  it('of credentials that expire and come anew from a credential process, without a word', async () => {
    s3.server.credentials = [OLD, NEW];
    const json = ({ accessKeyId, secretAccessKey, sessionToken }: typeof OLD): string =>
      JSON.stringify({
        Version: 1,
        AccessKeyId: accessKeyId,
        SecretAccessKey: secretAccessKey,
        SessionToken: sessionToken,
      });
    const answer = s3.place.dir + '/answer';
    const config = s3.place.dir + '/config';
    fs.writeFileSync(answer, json(OLD));
    fs.writeFileSync(config, `[profile sim]\ncredential_process = cat ${answer}\n`);
    const env = {
      AWS_ACCESS_KEY_ID: undefined,
      AWS_SECRET_ACCESS_KEY: undefined,
      AWS_PROFILE: 'sim',
      AWS_CONFIG_FILE: config,
    };
    const run = s3.run(FILES, `while [ ! -e renewed ]; do sleep 0.05; done; ${TASK}`, env);
    await run.says(/task sh/);
    s3.server.credentials = [{ ...OLD, expired: true }, NEW];
    fs.writeFileSync(answer, json(NEW));
    fs.writeFileSync(s3.place.at('renewed'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.keys()).toHaveLength(4);
    expect(run.stderr()).not.toContain('the store');
  });

  it('that hits only the records: the last ones are tried until they are there', async () => {
    let refused = 0;
    // Each is refused at once, so that every try is one of the drain's own.
    s3.server.fault = ({ operation, key }) => {
      if (!hasStarted() || operation !== 'PutObject' || !key.includes('.capture/') || refused >= 4)
        return undefined;
      refused += 1;
      return { kind: 'answer', status: 403, code: 'AccessDenied' };
    };
    const run = s3.run(FILES, TASK);
    expect(await run.status, run.stderr()).toBe(0);
    expect(refused).toBe(4);
    expect(run.stderr()).toMatch(/the store does not work: .*\.capture\/.*access denied/);
    expect(s3.keys()).toHaveLength(4);
    expect(s3.records().at(-1)?.record).toMatchObject({ kind: 'done', left: [] });
    expect(s3.records().at(-1)?.record.generations).toHaveLength(1);
  });

  it(
    'of a connection that moves no byte: it is given up after half a minute',
    { timeout: 120_000 },
    async () => {
      const proxy = await startFaultProxy(s3.server.url);
      try {
        const run = s3.run(['-r', 'r.dat'], 'while [ ! -e go ]; do sleep 0.05; done; echo data > r.dat', {
          AWS_ENDPOINT_URL_S3: proxy.url,
        });
        await run.says(/task sh/);
        proxy.fault = { kind: 'stall' };
        fs.writeFileSync(s3.place.at('go'), '');
        await run.says(/the store does not work: .*no answer/);
        proxy.fault = undefined;
        expect(await run.status, run.stderr()).toBe(0);
        expect(s3.text('r.dat.0')).toBe('data\n');
        expect(s3.versions('r.dat.0')).toBe(1);
      } finally {
        await proxy.stop();
      }
    },
  );
});

describe('the end of the drain', () => {
  it('a key that may not be written: the others are stored, and the record says which is left', async () => {
    // Also not beside the result, where it stands until its close is settled.
    failOnceStarted(
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      ({ operation, key }) => operation === 'PutObject' && key.startsWith('run/r2.dat.0'),
    );
    const run = s3.run([...FILES, '--drain-timeout', '2s'], TASK);
    expect(await run.status, run.stderr()).toBe(74);
    expect(s3.keys()).toEqual(['k.chk.sh.0.1-1', 'r1.dat.0', 'r3.dat.0']);
    expect(s3.records().at(-1)?.record).toMatchObject({
      kind: 'failed',
      left: [{ path: 'r2.dat', why: expect.stringContaining('access denied') }],
    });
    expect(run.stderr()).toMatch(/NOT stored: r2\.dat \(PutObject .*access denied/);
    expect(fs.readdirSync(s3.place.work)).toContain('r2.dat');
  });

  it('a name that may not be given: what stands beside it is stored, and the record says which is left', async () => {
    failOnceStarted(
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      ({ operation, key }) => operation === 'CopyObject' && key === 'run/r2.dat.0',
    );
    // A process has just ended: nobody knows yet who closed what comes then.
    const task = TASK.replace('exit 0', 'until [ -e go ]; do sleep 0.02; done; exit 0');
    const run = s3.run([...FILES, '--drain-timeout', '2s'], task);
    await until(() => s3.keys().includes('r2.dat.0.partial-1'), 'the object beside the result');
    fs.writeFileSync(s3.place.at('go'), '');
    expect(await run.status, run.stderr()).toBe(74);
    expect(s3.keys()).toEqual(['k.chk.sh.0.1-1', 'r1.dat.0', 'r2.dat.0.partial-1', 'r3.dat.0']);
    expect(s3.records().at(-1)?.record).toMatchObject({
      kind: 'failed',
      left: [{ path: 'r2.dat', why: expect.stringContaining('access denied') }],
    });
    expect(fs.existsSync(s3.place.at('r2.dat'))).toBe(true);
  });

  it('SIGTERM in the drain leaves only the grace', async () => {
    failOnceStarted(BUSY);
    const run = s3.run([...FILES, '--grace', '3s'], TASK);
    await run.says(/the store does not work: .*503.* for up to 1 h/);
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(74);
    expect(run.stderr()).toMatch(/NOT stored: .*r1\.dat/);
  });

  it('comes in time although the store is asked about what could be reclaimed', async () => {
    expect(await s3.run(['-r', 'r.dat', '--keep'], 'echo data > r.dat').status).toBe(0);
    s3.server.fault = ({ operation, key }) =>
      operation === 'HeadObject' && key.endsWith('r.dat.0') ? BUSY : undefined;
    const run = s3.run(['-r', 'r.dat', '--grace', '4s'], 'echo data > r.dat; while :; do sleep 0.05; done');
    await run.says(/task sh, attempt 2/);
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(75);
    expect(s3.records().at(-1)?.record.kind).toBe('preempted');
    expect(fs.existsSync(s3.place.at('r.dat'))).toBe(true);
  });

  it('a store that works again within the grace takes everything, although it has just been refused', async () => {
    const { lift } = failOnceStarted({ kind: 'answer', status: 403, code: 'AccessDenied' });
    const run = s3.run(
      [...FILES, '--grace', '20s'],
      `trap 'exit 0' TERM; ${TASK.replace('exit 0', 'while :; do sleep 0.05; done')}`,
    );
    await run.says('access denied');
    lift();
    process.kill(run.pid, 'SIGTERM');
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.keys()).toHaveLength(4);
  });
});

describe('at the start', () => {
  it('a store that does not work is waited for, with one line that says so', async () => {
    s3.server.fault = () => BUSY;
    const run = s3.run(['-r', 'r.dat'], 'echo data > r.dat');
    await run.says(
      /the store does not work: ListObjectsV2 .*503.*; waiting for it, the task is not started yet/,
    );
    s3.server.fault = () => undefined;
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.text('r.dat.0')).toBe('data\n');
    expect(count(run.stderr(), /the store does not work/)).toBe(1);
    expect(count(run.stderr(), /the store works again/)).toBe(1);
  });

  it('one that is busy is there, and waited for also beyond --drain-timeout', async () => {
    let asked = 0;
    s3.server.fault = ({ operation }) =>
      operation === 'ListObjectsV2' && (asked += 1) <= 4 ? BUSY : undefined;
    const run = s3.run(['-r', 'r.dat', '--drain-timeout', '1s'], 'echo data > r.dat');
    expect(await run.status, run.stderr()).toBe(0);
    expect(s3.text('r.dat.0')).toBe('data\n');
  });

  it('one that answers nothing at all is said to be waited for before its first request has failed', async () => {
    const proxy: FaultProxy = await startFaultProxy(s3.server.url);
    try {
      proxy.fault = { kind: 'stall' };
      const run = s3.run(['-r', 'r.dat'], 'echo data > r.dat', { AWS_ENDPOINT_URL_S3: proxy.url });
      await run.says('the store does not work: no answer yet; waiting for it, the task is not started yet');
      process.kill(run.pid, 'SIGTERM');
      expect(await run.status).toBe(75);
      expect(s3.keys()).toEqual([]);
    } finally {
      await proxy.stop();
    }
  });

  it('one whose answers come a byte a second is status 69 within --drain-timeout', async () => {
    expect(await s3.run(['-k', 'k.chk'], 'seq 5000 > k.chk').status).toBe(0);
    s3.place.freshWork();
    const proxy: FaultProxy = await startFaultProxy(s3.server.url);
    try {
      // From the checkpoint's bytes on: each listing, look and record before it comes as always.
      s3.server.fault = ({ key }) => {
        if (key.includes('k.chk')) proxy.fault = { kind: 'trickle', everyMs: 1000 };
        return undefined;
      };
      const run = s3.run(['-k', 'k.chk', '--drain-timeout', '2s'], 'echo started', {
        AWS_ENDPOINT_URL_S3: proxy.url,
      });
      expect(await run.status, run.stderr()).toBe(69);
      expect(proxy.hits).toBeGreaterThan(0);
      expect(run.stdout()).toBe('');
      expect(run.stderr()).toMatch(/waited for it for 2\.0 s\n {2}try: /);
    } finally {
      await proxy.stop();
    }
  });

  it.each<[string, Fault, RegExp]>([
    [
      'a wrong clock',
      { kind: 'answer', status: 403, code: 'RequestTimeTooSkewed' },
      /the clocks of this machine and of the server differ[^]*try: set the clock/,
    ],
    [
      'expired credentials',
      { kind: 'answer', status: 400, code: 'ExpiredToken' },
      /credentials expired[^]*try: renew them/,
    ],
    [
      'a missing right',
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      /access denied[^]*try: check that these credentials may ListObjectsV2/,
    ],
  ])('%s is status 69 at once, and nothing was started', async (_, fault, says) => {
    s3.server.fault = () => fault;
    const run = s3.run(['-r', 'r.dat'], 'echo started');
    expect(await run.status, run.stderr()).toBe(69);
    expect(run.stdout()).toBe('');
    expect(run.stderr()).toMatch(says);
    expect(s3.keys()).toEqual([]);
  });
});
