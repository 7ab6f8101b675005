// How many requests a run costs: an array of 10,000 tasks sends each of them 10,000 times. The server is none of
// Amazon's, so each start asks it once whether it honours create-only puts.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { FIRST_START } from '../../bench/lib/array-start.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { BIN, until } from './support.ts';

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

/** What a run asked of the store, in order. Without its looks at the claims, which its clock decides (records/claim). */
async function requestsOf(script: string, env: NodeJS.ProcessEnv = {}): Promise<readonly string[]> {
  const before = s3.server.served.length;
  const run = s3.run(['-r', 'r*.dat', '-k', '*.chk', '--task-name', 't'], script, env);
  await run.status;
  return requestsSince(before);
}

function requestsSince(count: number): readonly string[] {
  return s3.server.served
    .slice(count)
    .map(({ operation, key }) => `${operation} ${key.replace(/^run\/(\.capture\/t\/0\/)?/, '')}`.trimEnd())
    .filter((request) => !/^GetObject \d{4}-000000\.started/.test(request));
}

it('a first start asks for six things beside its claim, and a task that closes nothing ends with one', async () => {
  const requests = await requestsOf(':');
  expect(requests).toEqual([
    'ListObjectsV2',
    'PutObject 0001-000000.started.json',
    // Is it refused?
    'PutObject 0001-000000.started.json',
    'ListObjectsV2',
    'PutObject 0001-000001.started.json',
    // Under which other name is there a checkpoint?
    'ListObjectsV2',
    'PutObject 0001-000002.done.json',
  ]);
  // The model of a whole array asks the same, and reads the claim once.
  const asked = requests.slice(0, -1).map((request) => request.split(' ')[0]);
  expect(asked).toEqual(FIRST_START.other.filter((operation) => operation !== 'GetObject'));
});

it('a restart asks for the last record of each attempt, each member, and unfinished uploads, once', async () => {
  await requestsOf('echo a > a.chk; echo b > b.chk; exit 3');
  s3.place.freshWork();
  const requests = await requestsOf('exit 3');
  expect(requests.slice(0, 9)).toEqual([
    'ListObjectsV2',
    'PutObject 0002-000000.started.json',
    'PutObject 0002-000000.started.json',
    'ListObjectsV2',
    expect.stringMatching(/^GetObject 0001-00000\d\.failed-3\.json$/),
    'PutObject 0002-000001.started.json',
    'ListMultipartUploads',
    expect.stringMatching(/^GetObject [ab]\.chk/),
    expect.stringMatching(/^GetObject [ab]\.chk/),
  ]);
});

it('after three attempts that is one record of each of them, and nothing else more', async () => {
  await requestsOf('echo a > a.chk; exit 3');
  for (const _ of [2, 3]) {
    s3.place.freshWork();
    await requestsOf('exit 3');
  }
  s3.place.freshWork();
  const requests = (await requestsOf('exit 3')).slice(0, 10);
  expect(requests.filter((request) => !/^GetObject 000\d-\d+\.failed-3\.json$/.test(request))).toEqual([
    'ListObjectsV2',
    'PutObject 0004-000000.started.json',
    'PutObject 0004-000000.started.json',
    'ListObjectsV2',
    'PutObject 0004-000001.started.json',
    'ListMultipartUploads',
    expect.stringMatching(/^GetObject a\.chk/),
  ]);
});

const MANY = Array.from({ length: 40 }, (_, n) => n + 100).join(' ');
const ofResultsOf = async (script: string): Promise<readonly string[]> =>
  (await requestsOf(script)).filter((request) => request.includes(' r'));

it('each result is one request, however many there are', async () => {
  const before = s3.server.served.length;
  const write = `for n in ${MANY}; do echo $n > r$n.dat; done`;
  // Nobody dies before all is stored.
  const run = s3.run(['-r', 'r*.dat', '--task-name', 't'], `${write}; until [ -e go ]; do :; done`);
  await until(() => s3.keys().filter((key) => key.endsWith('.dat.0')).length === 40, 'all results');
  fs.writeFileSync(s3.place.at('go'), '');
  expect(await run.status, run.stderr()).toBe(0);
  const ofResults = requestsSince(before).filter((request) => request.includes(' r'));
  expect(ofResults).toEqual(
    Array.from({ length: 40 }, () => expect.stringMatching(/^PutObject r\d{3}\.dat\.0$/)),
  );
  expect(new Set(ofResults).size).toBe(40);
});

it('a result that replaces our own is one request, too; the first of a run asks what the server does with conditions', async () => {
  // A rename is no death's, although a flush has just ended.
  const flush = '"$BIN" flush --timeout 60s || exit 9';
  const requests = await requestsOf(`for n in 1 2 3 4; do echo $n > tmp; mv tmp r.dat; ${flush}; done`, {
    BIN,
  });
  expect(
    requests
      .filter((request) => /r\.dat|~/.test(request))
      .map((one) => one.replace(/[0-9a-f]{8}-[0-9a-f-]{27}$/, '<id>')),
  ).toEqual([
    'PutObject r.dat.0',
    'PutObject .capture/~if-match-<id>',
    'PutObject r.dat.0',
    'PutObject r.dat.0',
    'PutObject r.dat.0',
  ]);
});

it('each result that a death may have closed is stored at once, and gets its name by a copy inside the store', async () => {
  const ofResults = await ofResultsOf(`for n in ${MANY}; do echo $n | cat > r$n.dat; done`);
  const names = (operation: string): number =>
    ofResults.filter((request) => request.startsWith(`${operation} `)).length;
  expect(names('PutObject')).toBe(40);
  expect(names('CopyObject')).toBe(
    ofResults.filter((request) => /^PutObject .*partial/.test(request)).length,
  );
  // What the put has told is not asked again; on a server that is none of Amazon's one look at the name comes first.
  expect(ofResults.filter((request) => /^HeadObject .*partial/.test(request))).toEqual([]);
  expect(ofResults.length).toBeLessThanOrEqual(4 * 40);
});

it('a new checkpoint set is a request for each member that has changed, and one', async () => {
  await requestsOf('echo a > a.chk; echo b > b.chk; exit 3');
  s3.place.freshWork();
  const requests = await requestsOf('echo more >> b.chk; exit 3');
  expect(requests.slice(9).filter((request) => /chk|checkpoint/.test(request))).toEqual([
    'PutObject b.chk.t.0.2-1',
    'PutObject 0002-000002.checkpoint.json',
  ]);
});
