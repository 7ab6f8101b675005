// The one place that makes an md5: with OpenSSL, or with hash-wasm if a FIPS build of OpenSSL refuses
// (https://docs.openssl.org/3.0/man7/fips_module/). Here md5 names content and keys; it protects nothing.
import { createHash } from 'node:crypto';

export interface Md5 {
  update(bytes: Uint8Array): void;
  /** The digest in hex; ends the use of this object. */
  digest(): string;
}

/** Slower (587 against 760 MB/s), and the same sum. Loaded only if it is needed. */
const wasm = isRefused() ? await (await import('hash-wasm')).createMD5() : undefined;

/** A fresh md5, for bytes that arrive in pieces. Any number of them may be under way. */
export function newMd5(): Md5 {
  if (wasm === undefined) {
    const hash = createHash('md5');
    return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest('hex') };
  }
  // One instance with one memory: what each sum has come to stands outside of it.
  let state = wasm.init().save();
  return {
    update: (bytes) => {
      wasm.load(state);
      state = wasm.update(bytes).save();
    },
    digest: () => wasm.load(state).digest('hex'),
  };
}

/** md5 of these bytes, or of a text as UTF-8, as hex. */
export function md5Of(content: Uint8Array | string): string {
  const md5 = newMd5();
  md5.update(typeof content === 'string' ? Buffer.from(content, 'utf8') : content);
  return md5.digest();
}

function isRefused(): boolean {
  try {
    createHash('md5');
    return false;
  } catch {
    return true; // ERR_OSSL_EVP_UNSUPPORTED
  }
}
