// `s3://bucket/prefix`: the form of the URL, and the rules for bucket names. Pure; loads nothing of the AWS SDK.
import { isMistake, type Mistake } from '../../model/errors.ts';
import { showPath } from '../../model/path.ts';
import { parsePrefix, trimmedPrefix } from '../contract/prefix.ts';
import type { GivenUrl, KindOption, StoreKind } from '../contract/store.ts';

const FORM = 's3://bucket/prefix';
/** The suffixes of directory buckets (S3 Express), and of access point aliases for them. */
const DIRECTORY = /--xa?-s3$/;
/** An access point, in the form that the AWS CLI accepts in a URL. */
const ACCESS_POINT = /^arn:aws[a-z-]*:s3:[a-z0-9-]+:\d{12}:accesspoint\/[a-z0-9][a-z0-9-]{1,48}[a-z0-9]$/;
/** An ARN contains a slash. */
const PARTS = /^s3:\/\/(arn:[^/]*(?:\/[^/]*)?|[^/]*)(?:\/(.*))?$/is;

/** For servers without a host name for each bucket. */
export const PATH_STYLE = 'path-style';
/** The other options of this kind (object-options.ts). */
export const OBJECT_OPTIONS = {
  requestPayer: 'request-payer',
  sse: 'sse',
  storageClass: 'storage-class',
  tag: 'tag',
} as const;

/** Nothing can be restored from them without hours of waiting. */
const ARCHIVES = new Set(['GLACIER', 'DEEP_ARCHIVE']);

/** The options that only this kind has. */
export const S3_OPTIONS = {
  [PATH_STYLE]: { help: 'put the bucket into the path of the URL, not into the host name' },
  [OBJECT_OPTIONS.requestPayer]: { help: "pay for the requests to somebody else's bucket" },
  [OBJECT_OPTIONS.sse]: {
    argument: '<kms[:key]|aes256>',
    help: 'how the server encrypts objects, if not as the bucket says',
    isForWrites: true,
    whyNot: (text) =>
      /^(aes256|kms(:[!-~]+)?)$/.test(text)
        ? undefined
        : { is: 'not one of kms, kms:<key id, ARN or alias>, aes256', example: 'kms:alias/lab' },
  },
  [OBJECT_OPTIONS.storageClass]: {
    argument: '<class>',
    help: 'of objects of 128 KiB or more: STANDARD_IA, INTELLIGENT_TIERING, ...',
    isForWrites: true,
    whyNot: (text) => {
      if (ARCHIVES.has(text))
        return { is: 'an archive, which nothing can resume from', example: 'GLACIER_IR' };
      return /^[A-Z][A-Z0-9_-]*$/.test(text)
        ? undefined
        : { is: 'not a storage class', example: 'STANDARD_IA' };
    },
  },
  [OBJECT_OPTIONS.tag]: {
    argument: '<name=value>',
    help: 'a tag of each object, for rules and bills',
    isForWrites: true,
    isRepeated: true,
    whyNot: (text) =>
      /^[\p{L}\p{N} +\-=._:/@]{1,128}$/u.test(text.replace(/=.*/s, '')) &&
      /^[^=]+=[\p{L}\p{N} +\-=._:/@]{0,256}$/u.test(text)
        ? undefined
        : { is: 'not a tag: letters, digits, space and + - = . _ : / @ around a =', example: 'project=melt' },
  },
} as const satisfies Readonly<Record<string, KindOption>>;

export const s3Kind: StoreKind = {
  form: FORM,
  parse: parseBucket,
  directoryOf: () => undefined,
  insteadOf: (scheme) => {
    switch (scheme) {
      case 'http':
      case 'https':
        return `${FORM}, and the server's address in AWS_ENDPOINT_URL_S3`;
      default:
        return undefined;
    }
  },
};

function parseBucket({ text, source, shown }: GivenUrl): string | Mistake {
  const match = PARTS.exec(text);
  const bucket = match?.[1] ?? '';
  if (bucket === '') return { message: `${shown}: names no bucket`, hint: `${source} ${FORM}` };
  if (bucket.startsWith('arn:')) {
    const mistake = arnMistake(bucket, shown);
    if (mistake !== undefined) return mistake;
  } else if (!isBucketName(bucket)) {
    return {
      message: `${shown}: '${showPath(bucket)}' cannot be the name of a bucket`,
      hint: 'bucket names have 3 to 63 of a-z, 0-9, dot and hyphen, and begin and end with a letter or digit',
    };
  }
  const prefix = parsePrefix(match?.[2] ?? '', { shown, right: `${source} s3://${bucket}/project/run` });
  if (isMistake(prefix)) return prefix;
  return prefix === '' ? `s3://${bucket}` : `s3://${bucket}/${prefix}`;
}

function arnMistake(arn: string, shown: string): Mistake | undefined {
  if (ACCESS_POINT.test(arn)) return undefined;
  if (/^arn:[^:]*:s3::.*\.mrap$/.test(arn)) {
    return {
      message: `${shown}: a multi-region access point leads to several buckets, each of which shows later what was stored in another: two attempts could not be told apart`,
      hint: 'name the bucket of one region, or an access point to it',
    };
  }
  return {
    message: `${shown}: '${showPath(arn)}' is not the ARN of an access point`,
    hint: 's3://arn:aws:s3:<region>:<account>:accesspoint/<name>/prefix',
  };
}

/** The bucket, or the ARN of an access point, and the prefix of a normalised URL. */
export function splitUrl(url: string): { readonly bucket: string; readonly prefix: string } {
  const [, bucket = '', prefix = ''] = PARTS.exec(url) ?? [];
  return { bucket, prefix: trimmedPrefix(prefix) };
}

/** False for buckets that only the SDK can reach. */
export function isOrdinary(bucket: string): boolean {
  return !isDirectory(bucket) && !bucket.startsWith('arn:');
}

/** A bucket of S3 Express: its listings have no order, and it needs a session. */
export function isDirectory(bucket: string): boolean {
  return DIRECTORY.test(bucket);
}

/** Amazon's rules (Amazon S3 User Guide, "General purpose bucket naming rules"). */
function isBucketName(name: string): boolean {
  return (
    /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name) && !name.includes('..') && !/^\d+(\.\d+){3}$/.test(name)
  );
}
