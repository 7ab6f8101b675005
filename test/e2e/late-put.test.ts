// A load balancer cuts requests for the client and delivers them later. Whatever the server does with conditions, the
// result that was closed last stays under its name, and the exit status tells the truth.
import fs from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { IfMatch, Operation } from '../s3-server/operations.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { BIN, until } from './support.ts';

let s3: S3Place;
beforeEach(async () => {
  s3 = await openS3Place();
});
afterEach(() => s3.close());

const WRITES: readonly Operation[] = ['PutObject', 'CopyObject', 'UploadPart', 'CompleteMultipartUpload'];
const CONTENTS: Readonly<Record<string, readonly string[]>> = {
  'what was closed later': ['v1', 'v2', 'v3'],
  'the return of what it replaced': ['v1', 'v2', 'v1'],
};
const IF_MATCH: readonly IfMatch[] = ['honoured', 'bare', 'refused', 'ignored'];
const FLUSH = '"$BIN" flush --timeout 60s || exit 9';

/** A rename is no death's: the content is put under the result's own name. */
const put = (content: string): string => `echo ${content} > tmp; mv tmp r; ${FLUSH}`;
/** A process has just ended: the content is put beside it, and copied there when the flush vouches for it. */
const staged = (content: string, at: number): string =>
  `/bin/true; echo ${content} > r; until [ -e staged-${at} ]; do sleep 0.02; done; ${FLUSH}`;

const cases = Object.keys(CONTENTS).flatMap((what) =>
  IF_MATCH.flatMap((ifMatch) => (['put', 'copy'] as const).map((way) => [ifMatch, way, what] as const)),
);

it.each(cases)('where If-Match is %s a late %s does not undo %s', async (ifMatch, way, what) => {
  const { server, place } = s3;
  const contents = CONTENTS[what] ?? [];
  server.ifMatch = ifMatch;
  const uncut = new Set(WRITES);
  // The first request of each kind that would make the second version.
  server.fault = ({ operation, key }) =>
    key === 'run/r.0' && s3.versions('r.0') === 1 && uncut.delete(operation) ? { kind: 'late' } : undefined;
  const steps = contents.map((content, at) => (way === 'copy' && at > 0 ? staged : put)(content, at));
  const script = `${steps.join('; ')}; touch written; until [ -e go ]; do sleep 0.02; done`;
  const run = s3.run(['-r', 'r'], script, { BIN });
  if (way === 'copy') await letEachBeStaged(contents.length);
  await until(() => fs.existsSync(place.at('written')), 'the last content');
  expect(uncut.has('CopyObject')).toBe(way === 'put');
  expect(server.held.length).toBeGreaterThan(0);
  // What a load balancer holds it may even deliver twice: now, and when the run is over.
  for (const arrive of server.held) arrive();
  fs.writeFileSync(place.at('go'), '');
  expect(await run.status, run.stderr()).toBe(0);
  for (const arrive of server.held) arrive();
  expect(s3.text('r.0')).toBe(`${contents.at(-1)}\n`);
  expect(s3.versions('r.0')).toBe(contents.length);
  expect(s3.keys()).toEqual(['r.0']);
  expect(server.pendingUploads()).toEqual([]);
});

it.each(IF_MATCH)(
  'where If-Match is %s, it is said at the start of a run that is not the first',
  async (ifMatch) => {
    const { server, place } = s3;
    server.ifMatch = ifMatch;
    const first = s3.run(['-r', 'r'], 'echo v1 > r; exit 3');
    expect(await first.status).toBe(3);
    expect(first.stderr()).not.toContain('If-Match');
    place.freshWork();
    const second = s3.run(
      ['-r', 'r'],
      'touch begun; until [ -e go ]; do sleep 0.02; done; echo v2 > r; echo v3 > r',
    );
    await until(() => fs.existsSync(place.at('begun')), 'the task');
    const told = ifMatch === 'ignored' ? 1 : 0;
    const times = (): number => second.stderr().match(/does not honour If-Match/g)?.length ?? 0;
    await until(() => times() === told, 'the opening lines');
    fs.writeFileSync(place.at('go'), '');
    expect(await second.status, second.stderr()).toBe(0);
    expect(times()).toBe(told);
    expect(s3.keys().filter((key) => !key.startsWith('r.0'))).toEqual([]);
  },
);

async function letEachBeStaged(contents: number): Promise<void> {
  const seen = new Set<string>();
  for (let at = 1; at < contents; at += 1) {
    let key: string | undefined;
    const isStaged = (): boolean => {
      key = s3.keys().find((one) => one.startsWith('r.0.partial-') && !seen.has(one));
      return key !== undefined;
    };
    // oxlint-disable-next-line no-await-in-loop -- one content after the other
    await until(isStaged, `the object of content ${at + 1} beside the result`);
    if (key !== undefined) seen.add(key);
    fs.writeFileSync(s3.place.at(`staged-${at}`), '');
  }
}
