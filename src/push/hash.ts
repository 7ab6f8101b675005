// md5 of what a reading sees. It names content, it guards nothing.
import { createHash } from 'node:crypto';

export interface Md5 {
  update(bytes: Uint8Array): void;
  /** The digest in hex; ends the use of this object. */
  digest(): string;
}

/**
 * Finds an md5 that works here and returns a function that starts one: OpenSSL's, or hash-wasm's where a FIPS
 * build of OpenSSL refuses (https://docs.openssl.org/3.0/man7/fips_module/). `create` is OpenSSL's.
 */
export async function loadMd5(create: () => Md5 = opensslMd5): Promise<() => Md5> {
  try {
    create();
    return create;
  } catch {
    return loadWasmMd5();
  }
}

function opensslMd5(): Md5 {
  const hash = createHash('md5');
  return { update: (bytes) => void hash.update(bytes), digest: () => hash.digest('hex') };
}

async function loadWasmMd5(): Promise<() => Md5> {
  const { createMD5 } = await import('hash-wasm');
  // One instance has one memory: a lane has one reading at a time, so it is enough.
  const hasher = await createMD5();
  return () => {
    hasher.init();
    return { update: (bytes) => void hasher.update(bytes), digest: () => hasher.digest('hex') };
  };
}
