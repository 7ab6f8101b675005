// Where objects go, as the user writes it: `s3://bucket/prefix`, `file:///dir` or a plain path. Pure; gives
// the one form that the rest of capture works with, or says why it cannot be a store.
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Mistake } from '../mistake.ts';
import { showPath } from '../path.ts';

/** S3 allows keys of 1,024 bytes, and ours take up to 900 of them (keys.ts) behind a slash. */
const PREFIX_LIMIT_BYTES = 123;
const KINDS = 's3://bucket/prefix, file:///directory, or the path of a directory';

/** `source` is what it came from, for the message: `--to`, or `CAPTURE_TO`. Paths are taken from `cwd`. */
export function parseStoreUrl(text: string, source: string, cwd: string): string | Mistake {
  const shown = `${source} '${showPath(text)}'`;
  const kind = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(text)?.[1]?.toLowerCase();
  switch (kind) {
    case undefined:
      if (text === '') return { message: `${source}: the store is empty`, hint: `${source} ${KINDS}` };
      if (/^(s3|file)\/\//i.test(text)) {
        const hint = `${source} ${text.replace('//', '://')}, or ./${text} for a directory`;
        return { message: `${shown}: lacks its colon`, hint };
      }
      return pathToFileURL(path.resolve(cwd, text)).href;
    case 's3':
      return parseBucket(text, shown, source);
    case 'file':
      return parseFile(text, shown, source);
    default:
      return {
        message: `${shown}: no such kind of store`,
        hint: hintFor(kind, source),
      };
  }
}

function parseBucket(text: string, shown: string, source: string): string | Mistake {
  const match = /^s3:\/\/([^/]*)(?:\/(.*))?$/is.exec(text);
  const bucket = match?.[1] ?? '';
  if (bucket === '') return { message: `${shown}: names no bucket`, hint: `${source} s3://bucket/prefix` };
  if (!isBucketName(bucket)) {
    return {
      message: `${shown}: '${showPath(bucket)}' cannot be the name of a bucket`,
      hint: 'bucket names have 3 to 63 of a-z, 0-9, dot and hyphen, and begin and end with a letter or digit',
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

function parseFile(text: string, shown: string, source: string): string | Mistake {
  try {
    const dir = fileURLToPath(new URL(text));
    if (/^file:\/\/\//i.test(text)) return pathToFileURL(path.resolve('/', dir)).href;
  } catch {
    // A host, or an escape that is none: the same answer as below.
  }
  return {
    message: `${shown}: not the URL of a local directory`,
    hint: `three slashes before an absolute path: ${source} file:///directory`,
  };
}

function hintFor(kind: string, source: string): string {
  switch (kind) {
    case 'gs':
    case 'gcs':
      return `${source} s3://bucket/prefix with AWS_ENDPOINT_URL_S3=https://storage.googleapis.com and HMAC keys`;
    case 'http':
    case 'https':
      return `${source} s3://bucket/prefix, and the server's address in AWS_ENDPOINT_URL_S3`;
    default:
      return `${source} ${KINDS}`;
  }
}
