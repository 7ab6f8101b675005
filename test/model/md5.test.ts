import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { bundle } from '../support/bundle.ts';
import { testDir } from '../support/work-dir.ts';

const dir = testDir();
let program = '';
beforeAll(async () => {
  program = await bundle('test/model/fixtures/two-sums.ts', dir.path);
});
afterAll(() => dir.remove());

it.each([
  ['of OpenSSL', []],
  ['where OpenSSL refuses it', ['--require', './test/support/refuse-md5.cjs']],
])('the md5 %s is right, also of contents that arrive in turns', (_, flags) => {
  const [one, two, text] = [randomBytes(1000), randomBytes(777), 'näme'];
  const told = execFileSync(
    process.execPath,
    [...flags, program, one.toString('hex'), two.toString('hex'), text],
    { encoding: 'utf8' },
  );
  expect(told.split(' ')).toEqual(
    [one, two, text].map((content) => createHash('md5').update(content).digest('hex')),
  );
});
