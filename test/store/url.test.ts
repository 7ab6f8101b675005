import { describe, expect, it } from 'vitest';
import { parseStoreUrl, storeDirectory } from '../../src/store/url.ts';

const parse = (text: string) => parseStoreUrl(text, '--to', '/home/me');

describe('a store', () => {
  it.each([
    ['s3://lab', 's3://lab'],
    ['s3://lab/', 's3://lab'],
    ['s3://lab/run7//', 's3://lab/run7'],
    ['s3://lab.x-1/a/b', 's3://lab.x-1/a/b'],
    ['s3://lab--use1-az4--x-s3/run/', 's3://lab--use1-az4--x-s3/run'],
    ['s3://lab--use1-az4--xa-s3', 's3://lab--use1-az4--xa-s3'],
    [
      's3://arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/lab-1/run/7/',
      's3://arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/lab-1/run/7',
    ],
    [
      's3://arn:aws:s3:eu-west-1:123456789012:accesspoint/lab/',
      's3://arn:aws:s3:eu-west-1:123456789012:accesspoint/lab',
    ],
    ['gs://lab', 'gs://lab'],
    ['GS://lab_1.example.org/run 7//', 'gs://lab_1.example.org/run 7'],
    ['gs://lab/a/b/', 'gs://lab/a/b'],
    ['file:///data/store/', 'file:///data/store'],
    ['file:///a%20b', 'file:///a%20b'],
    ['store', 'file:///home/me/store'],
    ['../s', 'file:///home/s'],
    ['/data/a b', 'file:///data/a%20b'],
    ['./s3:x', 'file:///home/me/s3:x'],
    ['/100%', 'file:///100%25'],
  ])('%j is %j', (text, url) => expect(parse(text)).toBe(url));

  it.each([
    ['', 'empty'],
    ['s3://', 'no bucket'],
    ['s3:///x', 'no bucket'],
    ['s3:lab/x', 'no bucket'],
    ['s3://Lab/x', 'bucket'],
    ['s3://a', 'bucket'],
    ['s3://a..b', 'bucket'],
    ['s3://10.0.0.1', 'bucket'],
    [`s3://${'a'.repeat(64)}`, 'bucket'],
    ['s3://arn:aws:s3::123456789012:accesspoint/m0xmr9v.mrap/run', 'multi-region'],
    ['s3://arn:aws:s3:eu-west-1:123456789012:accesspoint:lab/run', 'ARN'],
    ['s3://arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-1/accesspoint/lab', 'ARN'],
    ['s3://arn:aws:s3:eu-west-1:12345:accesspoint/lab', 'ARN'],
    ['s3://arn:aws:s3:eu-west-1:123456789012:accesspoint/lab/../x', 'prefix'],
    ['s3://lab/a//b', 'prefix'],
    ['s3://lab/../b', 'prefix'],
    [`s3://lab/${'a'.repeat(124)}`, '123 bytes'],
    ['file://host/dir', 'local directory'],
    ['file:dir', 'local directory'],
    ['file:///%zz', 'local directory'],
    ['gs://', 'no bucket'],
    ['gs:lab/x', 'no bucket'],
    ['gs://Lab', 'bucket'],
    ['gs://la', 'bucket'],
    ['gs://lab-', 'bucket'],
    ['gs://a..b', 'bucket'],
    ['gs://10.0.0.1', 'bucket'],
    [`gs://${'a'.repeat(64)}`, 'bucket'],
    [`gs://a.${'b.'.repeat(110)}c`, 'bucket'],
    ['gs://lab/a//b', 'prefix'],
    ['gs://lab/../b', 'prefix'],
    ['gs://lab/a\u0007', 'control character'],
    [`gs://lab/${'a'.repeat(124)}`, '123 bytes'],
    ['gcs://lab', 'kind'],
    ['https://lab', 'kind'],
    ['C:\\x', 'kind'],
  ])('%j is refused: %s', (text, why) => {
    expect(parse(text)).toMatchObject({
      message: expect.stringContaining(why),
      hint: expect.stringMatching(/./),
    });
  });

  it.each([
    ['file:///data/a%20b', '/data/a b'],
    ['s3://lab/run7', undefined],
    ['', undefined],
  ])('%j is in the directory %j', (url, directory) => expect(storeDirectory(url)).toBe(directory));
});
