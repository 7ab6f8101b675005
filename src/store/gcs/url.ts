// `gs://bucket/prefix`: the form of the URL, and the rules for bucket names. Pure; loads nothing of Google's libraries.
import { isMistake, type Mistake } from '../../model/errors.ts';
import { showPath } from '../../model/path.ts';
import { parsePrefix } from '../contract/prefix.ts';
import type { GivenUrl, StoreKind } from '../contract/store.ts';

const FORM = 'gs://bucket/prefix';
const PARTS = /^gs:\/\/([^/]*)(?:\/(.*))?$/is;

export const gcsKind: StoreKind = {
  form: FORM,
  parse: parseBucket,
  directoryOf: () => undefined,
  insteadOf: (scheme) => (scheme === 'gcs' ? FORM : undefined),
};

function parseBucket({ text, source, shown }: GivenUrl): string | Mistake {
  const [, bucket = '', rest = ''] = PARTS.exec(text) ?? [];
  if (bucket === '') return { message: `${shown}: names no bucket`, hint: `${source} ${FORM}` };
  if (!isBucketName(bucket)) {
    return {
      message: `${shown}: '${showPath(bucket)}' cannot be the name of a bucket`,
      hint: 'bucket names have 3 to 63 of a-z, 0-9, dot, hyphen and _, and begin and end with a letter or digit',
    };
  }
  const prefix = parsePrefix(rest, { shown, right: `${source} gs://${bucket}/project/run` });
  if (isMistake(prefix)) return prefix;
  return prefix === '' ? `gs://${bucket}` : `gs://${bucket}/${prefix}`;
}

/** Google's rules (https://docs.cloud.google.com/storage/docs/buckets#naming). A name with dots may have 222 characters. */
function isBucketName(name: string): boolean {
  return (
    name.length >= 3 &&
    name.length <= 222 &&
    name.split('.').every((part) => /^[a-z0-9_-]{1,63}$/.test(part)) &&
    /^[a-z0-9].*[a-z0-9]$/.test(name) &&
    !/^\d+(\.\d+){3}$/.test(name)
  );
}

/** The bucket and the prefix of a normalised URL. */
export function splitUrl(url: string): { readonly bucket: string; readonly prefix: string } {
  const [, bucket = '', prefix = ''] = PARTS.exec(url) ?? [];
  return { bucket, prefix };
}
