// examples/aws-batch/job-role-policy.json allows each request that capture sends, and nothing that it does not need.
import fs from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import type { Operation } from '../../src/store/s3/bucket.ts';
import { openS3Place } from '../e2e/s3-place.ts';
import type { Incoming } from '../s3-server/server.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const POLICY = fs
  .readFileSync(path.join(ROOT, 'examples/aws-batch/job-role-policy.json'), 'utf8')
  .replaceAll('my-bucket', 'lab');

interface Statement {
  readonly Action: string | readonly string[];
  readonly Resource: string;
  readonly Condition?: { readonly StringLike: Readonly<Record<string, string>> };
}
const { Statement: statements } = JSON.parse(POLICY) as { readonly Statement: readonly Statement[] };

/** The right that S3 asks for, by the Service Authorization Reference. No policy for objects names one for sessions. */
const RIGHTS: Readonly<Record<Exclude<Operation, 'CreateSession'>, string>> = {
  GetObject: 's3:GetObject',
  HeadObject: 's3:GetObject',
  ListObjectsV2: 's3:ListBucket',
  PutObject: 's3:PutObject',
  CreateMultipartUpload: 's3:PutObject',
  UploadPart: 's3:PutObject',
  CompleteMultipartUpload: 's3:PutObject',
  CopyObject: 's3:PutObject',
  UploadPartCopy: 's3:PutObject',
  DeleteObject: 's3:DeleteObject',
  AbortMultipartUpload: 's3:AbortMultipartUpload',
  ListMultipartUploads: 's3:ListBucketMultipartUploads',
};

function isLike(pattern: string, text: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : pattern === text;
}

function allows(right: string, key: string, listed: string): boolean {
  const resource = `arn:aws:s3:::lab${key === '' ? '' : `/${key}`}`;
  return statements.some(
    ({ Action, Resource, Condition }) =>
      [Action].flat().includes(right) &&
      isLike(Resource, resource) &&
      isLike(Condition?.StringLike['s3:prefix'] ?? '*', listed),
  );
}

it('the role of the AWS Batch job may do all that capture does under its prefix, and no more', async () => {
  const s3 = await openS3Place();
  try {
    const denied: string[] = [];
    s3.server.fault = ({ operation, key, query, headers }: Incoming) => {
      const right = RIGHTS[operation as keyof typeof RIGHTS];
      const source = headers['x-amz-copy-source'];
      const listed = query.get('prefix') ?? '';
      const isAllowed =
        allows(right, key, listed) &&
        (source === undefined || allows('s3:GetObject', String(source).replace(/^\/?lab\//, ''), ''));
      if (isAllowed) return undefined;
      denied.push(`${operation} ${key}${listed}`);
      return { kind: 'answer', status: 403, code: 'AccessDenied' };
    };
    const to = ['--to', 's3://lab/melt/12', '--path-style'];
    const from = ['--from', 's3://lab/melt', '-i', 'in.melt'];
    const declared = ['-r', 'final.data', '-r', 'big.data', '-k', 'melt.chk', '--task-name', 'lmp'];
    const attempt = async (script: string, status: number): Promise<void> => {
      s3.place.freshWork();
      const task = ['--', 'sh', '-c', script];
      const run = s3.place.capture([...to, ...from, ...declared, ...task], s3.env);
      expect(await run.status, run.stderr()).toBe(status);
    };
    s3.server.plant('melt/in.melt', Buffer.from('input\n'), 0);

    // A large result and a checkpoint; the next attempt resumes, and replaces what the first one has stored.
    const write = (n: number): string =>
      `head -c 20M /dev/zero | tr "\\0" ${n} >big.data; seq ${n} >final.data; seq ${n} >melt.chk`;
    await attempt(`${write(4)}; exit 3`, 3);
    await attempt(`[ -s melt.chk ] && ${write(5)}`, 0);
    const commands = [
      ['doctor'],
      ['status'],
      ['verify'],
      ['gather', path.join(s3.place.dir, 'all')],
      ['prune', '--checkpoints', '--older'],
      ['rm', '--index', '0', '--yes'],
    ];
    for (const [name = '', ...rest] of commands) {
      const run = s3.place.capture([name, 's3://lab/melt/12', '--path-style', ...rest], s3.env);
      expect(await run.status, `${name}: ${run.stderr()}`).toBe(0);
    }
    expect(denied).toEqual([]);
    expect(new Set(statements.flatMap(({ Action }) => Action))).toEqual(new Set(Object.values(RIGHTS)));
  } finally {
    await s3.close();
  }
});

it('the page shows the same policy', () => {
  const page = fs.readFileSync(path.join(ROOT, 'docs/preemption/aws-batch.md'), 'utf8');
  const [, shown = ''] = /```json\n(\{\n {2}"Version"[^]*?)```/.exec(page) ?? [];
  expect(JSON.parse(shown.replaceAll('my-bucket', 'lab'))).toEqual(JSON.parse(POLICY));
});
