// The age format, version 1, opened by nothing but node:crypto: not by the library, and not by capture.
import { createDecipheriv, createPrivateKey, createPublicKey, diffieHellman, hkdfSync } from 'node:crypto';

/** RFC 8410: what stands before the 32 bytes of a key of X25519 in DER. */
const PRIVATE = Buffer.from('302e020100300506032b656e04220420', 'hex');
const PUBLIC = Buffer.from('302a300506032b656e032100', 'hex');
const LETTERS = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l';
const CHUNK = 2 ** 16 + 16;

/** The 32 bytes of `AGE-SECRET-KEY-1...` (bech32, BIP 173; its checksum is not looked at). */
function secretOf(identity: string): Buffer {
  const data = identity.toLowerCase().slice(identity.lastIndexOf('1') + 1, -6);
  const bits = Array.from(data, (letter) => LETTERS.indexOf(letter).toString(2).padStart(5, '0')).join('');
  return Buffer.from(bits.match(/.{8}/g)?.map((byte) => Number.parseInt(byte, 2)) ?? []);
}

const derived = (key: Uint8Array, salt: Uint8Array, info: string): Buffer =>
  Buffer.from(hkdfSync('sha256', key, salt, info, 32));

function unsealed(key: Uint8Array, nonce: Uint8Array, sealed: Buffer): Buffer {
  const cipher = createDecipheriv('chacha20-poly1305', key, nonce, { authTagLength: 16 });
  cipher.setAuthTag(sealed.subarray(-16));
  return Buffer.concat([cipher.update(sealed.subarray(0, -16)), cipher.final()]);
}

/** Throws if the identity does not open it, or if a byte of it is not as it was. */
export function openAge(stored: Buffer, identity: string): Buffer {
  const privateKey = createPrivateKey({
    key: Buffer.concat([PRIVATE, secretOf(identity)]),
    format: 'der',
    type: 'pkcs8',
  });
  const own = createPublicKey(privateKey).export({ format: 'der', type: 'spki' }).subarray(-32);
  const end = stored.indexOf('\n', stored.indexOf('\n--- ') + 1) + 1;
  const header = stored.subarray(0, end).toString();
  const fileKey = [...header.matchAll(/^-> X25519 (\S+)\n(\S+)$/gm)].flatMap(([, share = '', body = '']) => {
    const theirs = Buffer.from(share, 'base64');
    const publicKey = createPublicKey({ key: Buffer.concat([PUBLIC, theirs]), format: 'der', type: 'spki' });
    const shared = diffieHellman({ privateKey, publicKey });
    const key = derived(shared, Buffer.concat([theirs, own]), 'age-encryption.org/v1/X25519');
    try {
      return [unsealed(key, Buffer.alloc(12), Buffer.from(body, 'base64'))];
    } catch {
      return [];
    }
  })[0];
  if (fileKey === undefined) throw new Error('it is for other recipients');
  const key = derived(fileKey, stored.subarray(end, end + 16), 'payload');
  const payload = stored.subarray(end + 16);
  const chunks: Buffer[] = [];
  for (let n = 0; n === 0 || n * CHUNK < payload.length; n += 1) {
    const nonce = Buffer.alloc(12);
    nonce.writeUInt32BE(n, 7);
    nonce[11] = (n + 1) * CHUNK >= payload.length ? 1 : 0;
    chunks.push(unsealed(key, nonce, payload.subarray(n * CHUNK, (n + 1) * CHUNK)));
  }
  return Buffer.concat(chunks);
}
