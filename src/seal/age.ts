// What needs the library: recipients and identities of age, and the header of each object. Loaded only if something is
// sealed. The bytes behind the header never pass through it: payload.ts is some ten times as fast.
import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from 'age-encryption';

/** The header of one object, and the key that it holds for each recipient: 16 bytes, for this object alone. */
export interface FileHeader {
  readonly header: Uint8Array;
  readonly fileKey: Uint8Array;
}

/** Behind the header of an empty file: its nonce, and the tag of its only chunk. */
const EMPTY_PAYLOAD_BYTES = 16 + 16;

/** Throws an Error with the reason if a recipient is malformed. */
export async function newFileHeader(recipients: readonly string[]): Promise<FileHeader> {
  const encrypter = new Encrypter();
  let fileKey: Uint8Array | undefined;
  encrypter.addRecipient({
    wrapFileKey: (key) => {
      fileKey = Uint8Array.from(key);
      return [];
    },
  });
  for (const recipient of recipients) encrypter.addRecipient(recipient);
  const empty = await encrypter.encrypt(new Uint8Array(0));
  if (fileKey === undefined) throw new Error('age-encryption made no key');
  return { header: empty.subarray(0, empty.length - EMPTY_PAYLOAD_BYTES), fileKey };
}

/** Throws an Error if no identity opens the header, or if it was changed. */
export function fileKeyOf(header: Uint8Array, identities: readonly string[]): Promise<Uint8Array> {
  const decrypter = new Decrypter();
  for (const identity of identities) decrypter.addIdentity(identity);
  return decrypter.decryptHeader(header);
}

/** The recipient of an identity. Throws an Error with the reason if the identity is malformed. */
export function recipientOf(identity: string): Promise<string> {
  return identityToRecipient(identity);
}

/** A new identity: `AGE-SECRET-KEY-1...`. */
export function newIdentity(): Promise<string> {
  return generateX25519Identity();
}
