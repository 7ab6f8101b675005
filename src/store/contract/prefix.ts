// The prefix of a URL of a bucket: the rules that all kinds with buckets share. Pure.
import type { Mistake } from '../../model/errors.ts';

/** Keys may have 1,024 bytes in S3 and elsewhere. Ours take up to 900 of them (model/format/keys.ts) after a slash. */
const PREFIX_LIMIT_BYTES = 123;

/** The prefix without slashes at its ends, or why it cannot be one. `right` is a right URL, for the hint. */
export function parsePrefix(
  text: string,
  { shown, right }: { readonly shown: string; readonly right: string },
): string | Mistake {
  const prefix = trimmedPrefix(text);
  if (/\p{Cc}/u.test(prefix)) return { message: `${shown}: a control character in the prefix`, hint: right };
  const parts = prefix.split('/');
  if (parts.some((part) => part === '.' || part === '..' || (part === '' && parts.length > 1)))
    return { message: `${shown}: the prefix has an empty, '.' or '..' part`, hint: right };
  if (Buffer.byteLength(prefix) <= PREFIX_LIMIT_BYTES) return prefix;
  return {
    message: `${shown}: the prefix has more than ${PREFIX_LIMIT_BYTES} bytes, too many for the limit of 1024 for a key`,
    hint: 'choose a shorter prefix',
  };
}

export function trimmedPrefix(text: string): string {
  return text.replaceAll(/^\/+|\/+$/g, '');
}
