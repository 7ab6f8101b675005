// The library of the AWS CLI signs what the S3 store sends, and what the SDK sends for it, as they do; and it takes the job
// definition of examples/aws-batch. Debian's python3-botocore; test/store/s3/botocore.test.ts needs none, and compares with
// what was recorded.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
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

/** Says what the API of AWS Batch does not know, or misses. */
const VALIDATE = `
import json, sys
import botocore.session
from botocore.validate import ParamValidator
batch = botocore.session.get_session().get_service_model('batch')
shape = batch.operation_model('RegisterJobDefinition').input_shape
print(ParamValidator().validate(json.load(sys.stdin), shape).generate_report())
`;

it('the job definition of AWS Batch has the fields of its API', () => {
  const definition: unknown = parseYaml(fs.readFileSync('examples/aws-batch/job-definition.yaml', 'utf8'));
  const { status, stdout, stderr } = spawnSync(PYTHON, ['-c', VALIDATE], {
    input: JSON.stringify(definition),
    encoding: 'utf8',
  });
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '\n', stderr: '' });
});
