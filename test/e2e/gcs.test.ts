// The whole program on Google Cloud Storage, against the project's own server, with credentials as a cluster has them.
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { decompress } from 'zstd-napi';
import { type GcsServer, startGcsServer } from '../gcs-server/server.ts';
import { federationOf, SUBJECT_TOKEN } from '../gcs-server/tokens.ts';
import { killTree, noise, openPlace, type Place, type Run, until } from './support.ts';

let server: GcsServer;
let place: Place;
let prefix = 0;
beforeAll(async () => {
  server = await startGcsServer();
});
afterAll(() => server.stop());
beforeEach(() => {
  place = openPlace();
  prefix += 1;
  server.fault = () => undefined;
});
afterEach(() => place.close());

const url = (): string => `gs://lab/run${prefix}`;

/** The server wants tokens, and these credentials get them. */
function credentials(): NodeJS.ProcessEnv {
  server.tokens ??= new Set();
  const subject = path.join(place.dir, 'subject');
  fs.writeFileSync(subject, SUBJECT_TOKEN);
  const file = path.join(place.dir, 'credentials.json');
  fs.writeFileSync(file, federationOf(server.url, subject));
  return { GOOGLE_APPLICATION_CREDENTIALS: file, CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE: server.url };
}

const run = (options: readonly string[], script: string): Run =>
  place.capture(['--to', url(), ...options, '--', 'sh', '-c', script], credentials());
const data = (): readonly string[] =>
  server
    .keys()
    .filter((key) => key.startsWith(`run${prefix}/`) && !key.startsWith(`run${prefix}/.capture/`))
    .map((key) => key.slice(`run${prefix}/`.length));
const bytes = (key: string): Buffer => {
  const stored = Buffer.from(server.object(`run${prefix}/${key}`)?.bytes ?? []);
  return key.endsWith('.zst') ? Buffer.from(decompress(stored)) : stored;
};

describe('on Google Cloud Storage', () => {
  it('results and checkpoints are stored, the next attempt resumes, and the commands on an array find all', async () => {
    const first = run(
      ['-r', 'out/', '-k', 'k.chk', '--index', '3'],
      'mkdir out; seq 5000 > out/a; echo x > "out/b c%"; echo step > k.chk',
    );
    expect(await first.status, first.stderr()).toBe(0);
    expect(data()).toEqual(['k.chk.sh.3.1-1', 'out/a.3.zst', 'out/b c%25.3']);
    place.freshWork();
    const second = run(['-k', 'k.chk', '--index', '3'], 'cat k.chk');
    expect(await second.status, second.stderr()).toBe(0);
    expect(second.stdout()).toBe('step\n');
    const status = place.capture(['status', url(), '--array', '3'], credentials());
    expect(await status.status, status.stderr()).toBe(0);
    expect(status.stdout()).toMatch(/1 done/);
    const gathered = place.capture(['gather', url(), 'results', '--array', '3'], credentials());
    expect(await gathered.status, gathered.stderr()).toBe(0);
    expect(fs.readFileSync(place.at('results/3/out/b c%'), 'utf8')).toBe('x\n');
  });

  it('a run that is killed while it sends shows no part, and the next one stores a whole object', async () => {
    fs.writeFileSync(place.at('seed'), noise(64 * 2 ** 20, 9));
    let parts = 0;
    server.fault = ({ operation }) => {
      if (operation === 'upload') parts += 1;
      return undefined;
    };
    const first = run(['-r', 'big'], 'cp seed big; while :; do sleep 1; done');
    await until(() => parts > 1, 'the first parts');
    killTree(first.pid);
    await first.status;
    for (const { bytes: seen } of server.versions(`run${prefix}/big.0`))
      expect(seen.length).toBe(64 * 2 ** 20);
    place.freshWork();
    const second = run(['-r', 'big'], 'echo small > big');
    expect(await second.status, second.stderr()).toBe(0);
    expect(bytes('big.0').toString()).toBe('small\n');
  });

  it('a server that dies in a large file and is back costs time, not the file', async () => {
    fs.writeFileSync(place.at('seed'), noise(40 * 2 ** 20 + 5, 7));
    let back: Promise<GcsServer> | undefined;
    server.fault = ({ operation, nth }) => {
      if (operation !== 'upload' || nth % 3 !== 0 || back !== undefined) return undefined;
      const { port, objects, tokens } = server;
      back = server.stop().then(async () => {
        server = await startGcsServer({ port, after: objects });
        server.tokens = tokens;
        return server;
      });
      return { kind: 'stall' };
    };
    const sent = run(['-r', 'big', '--compression', 'none'], 'cp seed big');
    expect(await sent.status, sent.stderr()).toBe(0);
    await back;
    expect(bytes('big.0').equals(fs.readFileSync(place.at('seed')))).toBe(true);
    expect(server.versions(`run${prefix}/big.0`)).toHaveLength(1);
  });

  it('of several processes that create one object exactly one succeeds', async () => {
    const puts = ['a', 'b', 'c'].map((name) => {
      fs.mkdirSync(place.at(name));
      fs.writeFileSync(place.at(`${name}/in.dat`), `of ${name}`);
      return place.capture(['put', `${name}/in.dat`, url()], credentials());
    });
    const ends = await Promise.all(puts.map(({ status }) => status));
    expect(ends.toSorted((a, b) => a - b)).toEqual([0, 1, 1]);
    expect(server.versions(`run${prefix}/in.dat`)).toHaveLength(1);
    expect(bytes('in.dat').toString()).toBe(`of ${['a', 'b', 'c'][ends.indexOf(0)]}`);
  });

  it('capture doctor finds nothing wrong, and leaves nothing', async () => {
    const doctor = place.capture(['doctor', url()], credentials());
    expect(await doctor.status, doctor.stdout() + doctor.stderr()).toBe(0);
    expect(doctor.stdout()).toMatch(/ 0 warnings, 0 failures/);
    expect(data()).toEqual([]);
  });

  it('credentials without rights end the run with 69 before the task starts', async () => {
    const env = credentials();
    server.fault = () => ({ kind: 'answer', status: 403, reason: 'forbidden' });
    const refused = place.capture(['--to', url(), '-r', 'r.dat', '--', 'echo', 'started'], env);
    expect(await refused.status).toBe(69);
    expect(refused.stdout()).toBe('');
    expect(refused.stderr()).toMatch(/access denied[^]*\n {2}try: give these credentials storage\.objects\./);
  });
});
