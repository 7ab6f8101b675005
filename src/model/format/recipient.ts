// For whom something is sealed: a recipient of age (`age1...`), or a key of gpg (`gpg:<fingerprint, id or address>`). Pure.

/** What a key of gpg begins with. */
export const GPG = 'gpg:';

export function isGpg(recipient: string): boolean {
  return recipient.startsWith(GPG);
}
