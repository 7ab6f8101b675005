// A machine whose OpenSSL refuses md5, as FIPS asks for: for capture it is a name of content, and had elsewhere.
import fs from 'node:fs';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { openS3Place } from './s3-place.ts';
import { BIN, openPlace } from './support.ts';

const NO_MD5 = { NODE_OPTIONS: `--require=${path.resolve('test/support/refuse-md5.cjs')}` };
/** Longer than a component of a key may be: the end of it is an md5. */
const LONG = 'n'.repeat(250);
const OPTIONS = ['--results', '*.dat', '--results', 'n*', '--checkpoints', 'k.chk', '--index', '1'];
const FIRST = `echo one > r.dat; ln -s r.dat link.dat; echo x > ${LONG}; seq 1 30000 > k.chk; sleep 0.5; exit 9`;
const SECOND = 'seq 1 30000 | cmp - k.chk && echo two > s.dat';

it('stores and restores in a directory where md5 is refused', async () => {
  const place = openPlace();
  onTestFinished(() => place.close());
  expect(await place.run([...OPTIONS, '--again-status', '9'], ['sh', '-c', FIRST], NO_MD5).status).toBe(75);
  place.freshWork();
  const second = place.run(OPTIONS, ['sh', '-c', SECOND], NO_MD5);
  expect(await second.status, second.stderr()).toBe(0);
  expect(place.keys().filter((key) => /^(r|s|link)\.dat|^n/.test(key))).toHaveLength(4);
}, 60_000);

it('stores and restores in S3 where md5 is refused', async () => {
  const { place, run, keys, close } = await openS3Place();
  onTestFinished(close);
  expect(await run([...OPTIONS, '--again-status', '9'], FIRST, NO_MD5).status).toBe(75);
  place.freshWork();
  const second = run(OPTIONS, SECOND, NO_MD5);
  expect(await second.status, second.stderr()).toBe(0);
  expect(keys().filter((key) => /^(r|s|link)\.dat|^n/.test(key))).toHaveLength(4);
}, 60_000);

it('threads that read large files, and the commands beside a run, work where md5 is refused', async () => {
  const place = openPlace();
  onTestFinished(() => place.close());
  const task = ['sh', '-c', `echo x > ${LONG}; seq 1 500000 > r.dat`];
  expect(await place.run(OPTIONS, task, NO_MD5).status).toBe(0);
  place.freshWork();
  const here = ['--to', place.store, '--task-name', 'sh', ...OPTIONS];
  const lines = [
    ['restore', ...here, '--inputs', 'r.dat'],
    ['gather', place.store, '../gathered'],
    [...here, '--dry-run', '--', 'true'],
  ];
  for (const line of lines) {
    const done = place.exec([BIN, ...line], NO_MD5);
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    expect(await done.status, `${line.join(' ')}: ${done.stderr()}`).toBe(0);
  }
  expect(fs.readFileSync(place.at('r.dat'), 'latin1')).toMatch(/\n500000\n$/);
}, 60_000);
