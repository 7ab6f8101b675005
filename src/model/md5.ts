// The one place that makes an md5: with OpenSSL, or with hash-wasm if a FIPS build of OpenSSL refuses
// (https://docs.openssl.org/3.0/man7/fips_module/). Here md5 names content and keys; it protects nothing.
import { createHash, hash } from 'node:crypto';
import type { IHasher } from 'hash-wasm';

export interface Md5 {
  update(bytes: Uint8Array): void;
  /** The digest in hex. The object must not be used afterwards. */
  digest(): string;
}

let wasm: IHasher | undefined;

/** Each process, worker and separately built program (build.mjs) awaits this once, before its first md5. */
export async function prepareMd5(): Promise<void> {
  if (!isRefused()) return;
  const { createMD5 } = await import('./wasm-md5.ts');
  wasm = await createMD5();
}

function isRefused(): boolean {
  try {
    createHash('md5');
    return false;
  } catch {
    return true; // ERR_OSSL_EVP_UNSUPPORTED
  }
}

/** A fresh md5 for bytes that arrive in pieces. Several may be in progress at a time. */
export function newMd5(): Md5 {
  return wasm === undefined ? opensslMd5() : wasmMd5(wasm);
}

function opensslMd5(): Md5 {
  const sum = createHash('md5');
  return { update: (bytes) => void sum.update(bytes), digest: () => sum.digest('hex') };
}

/** Slower (587 against 760 MB/s). The hasher has one memory, so the state of each sum is saved outside of it. */
function wasmMd5(hasher: IHasher): Md5 {
  let state = hasher.init().save();
  return {
    update: (bytes) => {
      hasher.load(state);
      state = hasher.update(bytes).save();
    },
    digest: () => hasher.load(state).digest('hex'),
  };
}

/** md5 of these bytes, or of a text as UTF-8, as hex. */
export function md5Of(content: Uint8Array | string): string {
  // An object of createHash takes longer to make than a small file to hash.
  if (wasm === undefined) return hash('md5', content);
  const md5 = wasmMd5(wasm);
  md5.update(typeof content === 'string' ? Buffer.from(content, 'utf8') : content);
  return md5.digest();
}
