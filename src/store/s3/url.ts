// `s3://bucket/prefix`: how it is written, and what a bucket may be called. Pure; loads nothing of the AWS SDK.
import type { Mistake } from '../../model/errors.ts';
import { showPath } from '../../model/path.ts';
import type { GivenUrl, StoreKind } from '../contract/store.ts';

/** S3 allows keys of 1,024 bytes, and ours take up to 900 of them (model/format/keys.ts) behind a slash. */
const PREFIX_LIMIT_BYTES = 123;
const FORM = 's3://bucket/prefix';
/** How the names of S3 Express's buckets end. They also want a signature of their own. */
const EXPRESS = '--x-s3';

/** For servers that have no host name for each bucket. */
export const PATH_STYLE = 'path-style';
/** The options that this kind alone has, and their help. */
export const S3_FLAGS = { [PATH_STYLE]: 'put the bucket into the path of the URL, not into the host name' };

export const s3Kind: StoreKind = {
  form: FORM,
  parse: parseBucket,
  directoryOf: () => undefined,
  insteadOf: (scheme) => {
    switch (scheme) {
      case 'gs':
      case 'gcs':
        return `${FORM} with AWS_ENDPOINT_URL_S3=https://storage.googleapis.com and HMAC keys`;
      case 'http':
      case 'https':
        return `${FORM}, and the server's address in AWS_ENDPOINT_URL_S3`;
      default:
        return undefined;
    }
  },
};

function parseBucket({ text, source, shown }: GivenUrl): string | Mistake {
  const match = /^s3:\/\/([^/]*)(?:\/(.*))?$/is.exec(text);
  const bucket = match?.[1] ?? '';
  if (bucket === '') return { message: `${shown}: names no bucket`, hint: `${source} ${FORM}` };
  if (!isBucketName(bucket)) {
    return {
      message: `${shown}: '${showPath(bucket)}' cannot be the name of a bucket`,
      hint: 'bucket names have 3 to 63 of a-z, 0-9, dot and hyphen, and begin and end with a letter or digit',
    };
  }
  if (bucket.endsWith(EXPRESS)) {
    return {
      message: `${shown}: '${bucket}' is a directory bucket, and those list their keys in no order`,
      hint: 'use a general purpose bucket',
    };
  }
  const prefix = (match?.[2] ?? '').replaceAll(/^\/+|\/+$/g, '');
  if (
    prefix
      .split('/')
      .some((part, at, all) => part === '.' || part === '..' || (part === '' && all.length > 1))
  ) {
    return {
      message: `${shown}: the prefix has an empty, '.' or '..' part`,
      hint: `${source} s3://${bucket}/project/run`,
    };
  }
  if (Buffer.byteLength(prefix) > PREFIX_LIMIT_BYTES) {
    return {
      message: `${shown}: the prefix has more than ${PREFIX_LIMIT_BYTES} bytes, too many for S3's limit of 1024 for a key`,
      hint: 'choose a shorter prefix',
    };
  }
  return prefix === '' ? `s3://${bucket}` : `s3://${bucket}/${prefix}`;
}

/** Amazon's rules (Amazon S3 User Guide, "General purpose bucket naming rules"). */
function isBucketName(name: string): boolean {
  return (
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) && !name.includes('..') && !/^\d+(\.\d+){3}$/.test(name)
  );
}
