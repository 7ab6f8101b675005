// The whole program on S3, against the project's own strict server, which keeps every version that was ever
// visible.
import fs from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { decompress } from 'zstd-napi';
import { startS3Server, type S3Server } from '../s3-server/server.ts';
import { killTree, noise, openPlace, until, type Place, type Run } from './support.ts';

let server: S3Server;
let place: Place;
beforeAll(async () => {
  server = await startS3Server();
});
afterAll(() => server.stop());
let prefix = 0;
beforeEach(() => {
  place = openPlace();
  prefix += 1;
  server.fault = () => undefined;
});
afterEach(() => place.close());

const url = (): string => `s3://${server.bucket}/run${prefix}`;
const run = (options: readonly string[], script: string, env: NodeJS.ProcessEnv = {}): Run =>
  place.capture(['--to', url(), '--path-style', ...options, '--', 'sh', '-c', script], {
    ...server.env,
    ...env,
  });
const keys = (): readonly string[] =>
  server
    .keys()
    .filter((key) => key.startsWith(`run${prefix}/`))
    .map((key) => key.slice(`run${prefix}/`.length));
const data = (): readonly string[] => keys().filter((key) => !key.startsWith('.capture/'));
const bytes = (key: string): Buffer => {
  const stored = Buffer.from(server.versions(`run${prefix}/${key}`).at(-1)?.bytes ?? []);
  return key.endsWith('.zst') ? Buffer.from(decompress(stored)) : stored;
};

describe('on S3', () => {
  it('results and checkpoints are stored, and the next attempt resumes', async () => {
    const first = run(
      ['-r', 'out/', '-k', 'k.chk', '--index', '3'],
      'mkdir out; seq 5000 > out/a; echo x > "out/b c"; echo step > k.chk',
    );
    expect(await first.status, first.stderr()).toBe(0);
    expect(data()).toEqual(['k.chk.sh.3.1-1', 'out/a.3.zst', 'out/b c.3']);
    expect(bytes('out/b c.3').toString()).toBe('x\n');
    place.freshWork();
    const second = run(['-k', 'k.chk', '--index', '3'], 'cat k.chk');
    expect(await second.status, second.stderr()).toBe(0);
    expect(second.stdout()).toBe('step\n');
    expect(server.pendingUploads()).toEqual([]);
  });

  it('a large file is one object in whole parts, with its record’s md5', async () => {
    fs.writeFileSync(place.at('seed'), noise(40 * 2 ** 20 + 5, 7));
    const sent = run(['-r', 'big'], 'cp seed big');
    expect(await sent.status, sent.stderr()).toBe(0);
    expect(bytes('big.0').equals(fs.readFileSync(place.at('seed')))).toBe(true);
    expect(server.versions(`run${prefix}/big.0`)).toHaveLength(1);
  });

  it('a run that is killed while it sends leaves no part visible, and the next one sweeps its upload', async () => {
    fs.writeFileSync(place.at('seed'), noise(64 * 2 ** 20, 9));
    let parts = 0;
    server.fault = ({ operation }) => {
      if (operation === 'UploadPart') parts += 1;
      return undefined;
    };
    const first = run(['-r', 'big'], 'cp seed big; while :; do sleep 1; done');
    await until(() => parts > 1, 'the first parts');
    killTree(first.pid);
    await first.status;
    const wasWhole = data().includes('big.0');
    expect(wasWhole || server.pendingUploads().length > 0).toBe(true);
    place.freshWork();
    const second = run(['-r', 'big'], 'echo small > big');
    expect(await second.status, second.stderr()).toBe(0);
    expect(server.pendingUploads()).toEqual([]);
    expect(bytes('big.0').toString()).toBe('small\n');
  });

  it('a store that fails for a while costs time, not results', async () => {
    let refused = 0;
    server.fault = ({ operation }) => {
      if (operation !== 'PutObject' || refused >= 4) return undefined;
      refused += 1;
      return { kind: 'answer', status: 503 };
    };
    const sent = run(['-r', 'r.dat'], 'echo data > r.dat');
    expect(await sent.status, sent.stderr()).toBe(0);
    expect(bytes('r.dat.0').toString()).toBe('data\n');
    expect(refused).toBe(4);
  });

  it('a store that ignores create-only puts ends the run with 69 before the task starts', async () => {
    server.fault = ({ operation }) => (operation === 'PutObject' ? { kind: 'ignore-condition' } : undefined);
    const refused = run(['-r', 'r.dat'], 'echo started');
    expect(await refused.status).toBe(69);
    expect(refused.stdout()).toBe('');
    expect(refused.stderr()).toMatch(/create-only puts[^]*\n {2}try: .*--unfenced/);
    const anyway = run(['-r', 'r.dat', '--unfenced'], 'echo data > r.dat');
    expect(await anyway.status, anyway.stderr()).toBe(0);
  });

  it('deletions that are refused are one warning, and the run succeeds', async () => {
    server.fault = ({ operation }) =>
      operation === 'DeleteObject' || operation === 'DeleteObjects'
        ? { kind: 'answer', status: 403, code: 'AccessDenied' }
        : undefined;
    const sent = run(
      ['-k', 'k.chk', '--generations', '1'],
      'for i in 1 2 3; do echo $i > k.chk; sleep 0.4; done',
    );
    expect(await sent.status, sent.stderr()).toBe(0);
    expect(sent.stderr().match(/cannot be deleted/g)).toHaveLength(1);
  });
});

describe('a store that cannot be used ends the run with 69 before the task starts', () => {
  it.each<[string, NodeJS.ProcessEnv, string, RegExp]>([
    ['because the bucket does not exist', {}, 's3://no-such-bucket/x', /no-such-bucket/],
    ['because the secret is wrong', { AWS_SECRET_ACCESS_KEY: 'wrong' }, '', /403/],
    [
      'because the key may do nothing',
      { AWS_ACCESS_KEY_ID: 'AKIADENIED', AWS_SECRET_ACCESS_KEY: 'denied-secret' },
      '',
      /403/,
    ],
  ])('%s', async (_, env, to, says) => {
    const refused = place.capture(
      ['--to', to === '' ? url() : to, '--path-style', '-r', 'r.dat', '--', 'sh', '-c', 'echo started'],
      { ...server.env, ...env },
    );
    expect(await refused.status, refused.stderr()).toBe(69);
    expect(refused.stdout()).toBe('');
    expect(refused.stderr()).toMatch(says);
    expect(refused.stderr()).toMatch(/\n {2}try: /);
    expect(refused.stderr()).not.toContain('denied-secret');
    expect(fs.existsSync(place.at('.capture'))).toBe(false);
  });

  it('because nothing answers at the endpoint, after a minute of trying', { timeout: 120_000 }, async () => {
    const refused = run(['-r', 'r.dat'], 'echo started', {
      AWS_ENDPOINT_URL: 'http://127.0.0.1:9',
      AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9',
    });
    expect(await refused.status, refused.stderr()).toBe(69);
    expect(refused.stdout()).toBe('');
    expect(refused.stderr()).toMatch(/127\.0\.0\.1:9[^]*\n {2}try: /);
  });
});

it('a directory bucket holds a store, with a large file that lib-storage sends', async () => {
  const bucket = 'lab--usw2-az1--x-s3';
  const directory = await startS3Server({ bucket, isDirectory: true, host: `${bucket}.s3.test` });
  // No name leads there: a proxy does.
  const env = { ...directory.env, AWS_ENDPOINT_URL_S3: 'http://s3.test', http_proxy: directory.url };
  const attempt = (script: string): Run =>
    place.capture(
      [
        '--to',
        `s3://${bucket}/run`,
        '-r',
        'big',
        '-k',
        'k.chk',
        '--again-status',
        '75',
        '--',
        'sh',
        '-c',
        script,
      ],
      env,
    );
  try {
    fs.writeFileSync(place.at('seed'), noise(24 * 2 ** 20 + 5, 7));
    const seed = fs.readFileSync(place.at('seed'));
    const first = attempt('cp seed big; echo step >k.chk; exit 75');
    expect(await first.status, first.stderr()).toBe(75);
    expect(directory.versions('run/big.0').at(-1)?.bytes?.equals(seed)).toBe(true);
    place.freshWork();
    const second = attempt('cat k.chk');
    expect(await second.status, second.stderr()).toBe(0);
    expect(second.stdout()).toBe('step\n');
    expect(directory.pendingUploads()).toEqual([]);
    const agents = directory.served.map(({ headers }) => String(headers['user-agent']));
    expect(agents.some((agent) => agent.startsWith('aws-sdk-js'))).toBe(true);
  } finally {
    await directory.stop();
  }
});
