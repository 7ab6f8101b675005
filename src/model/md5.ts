// The one place that makes an md5: with OpenSSL, or with our own if a FIPS build of OpenSSL refuses
// (https://docs.openssl.org/3.0/man7/fips_module/). Here md5 names content and keys; it protects nothing.
import { createHash } from 'node:crypto';
import { PlainMd5 } from './plain-md5.ts';

export interface Md5 {
  update(bytes: Uint8Array): void;
  /** The digest in hex; ends the use of this object. */
  digest(): string;
}

/** A fresh md5, for bytes that arrive in pieces. Any number of them may be under way. */
export function newMd5(): Md5 {
  let hash: ReturnType<typeof createHash>;
  try {
    hash = createHash('md5');
  } catch {
    return new PlainMd5(); // ERR_OSSL_EVP_UNSUPPORTED
  }
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest('hex') };
}

/** md5 of these bytes, or of a text as UTF-8, as hex. */
export function md5Of(content: Uint8Array | string): string {
  const md5 = newMd5();
  md5.update(typeof content === 'string' ? Buffer.from(content, 'utf8') : content);
  return md5.digest();
}
