// The library of the AWS CLI signs what the S3 store sends, and what the SDK sends for it, as they do. Debian's
// python3-botocore; test/store/s3/botocore.test.ts needs none, and compares with what was recorded.
import { expect, it } from 'vitest';
import { sentByDriver, sentBySdk, signedByBotocore } from '../store/s3/botocore/requests.ts';

/** The one that finds Debian's packages. */
const PYTHON = '/usr/bin/python3';

it('each request for each odd key', async () => {
  const sent = await sentByDriver();
  const expected = signedByBotocore(sent, PYTHON);
  const wrong = sent.filter(({ signature }, at) => signature !== expected[at]);
  expect(wrong.map(({ operation, method, url }) => `${operation}: ${method} ${url}`)).toEqual([]);
  expect(expected.length).toBeGreaterThan(31 * 12);
});

it.each(['plain', 'session'] as const)('what the SDK asks STS for with keys that are %s', async (account) => {
  const sent = await sentBySdk(account);
  expect(sent).toHaveLength(1);
  expect('x-amz-security-token' in (sent[0]?.headers ?? {})).toBe(account === 'session');
  expect(signedByBotocore(sent, PYTHON)).toEqual(sent.map(({ signature }) => signature));
});
