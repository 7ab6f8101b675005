// A store in which everything is sealed, as the holder of the run's identity sees it.
import fs from 'node:fs';
import { newIdentity, recipientOf } from '../../../src/seal/age.ts';
import { indexKeyOf, openSecrets, sealedText } from '../../../src/seal/secrets.ts';
import { openAge } from '../../support/age.ts';
import type { View } from './view.ts';

export interface Key {
  readonly identity: string;
  readonly recipient: string;
  readonly file: string;
}

export async function newKey(file: string): Promise<Key> {
  const identity = await newIdentity();
  fs.writeFileSync(file, `${identity}\n`);
  return { identity, recipient: await recipientOf(identity), file };
}

/** For the views: what a key's stored bytes hold, before they are decompressed. */
export function opener({ identity }: Key): (key: string, stored: Buffer) => Buffer {
  return (key, stored) => {
    if (key.endsWith('.age')) return openAge(stored, identity);
    if (!key.startsWith('.capture/')) throw new Error(`${key} is stored in plain`);
    const sealed = sealedText(stored.toString());
    if (sealed === undefined) return stored;
    const indexKey = indexKeyOf(openAge(Buffer.from(sealed.note.key, 'base64'), identity));
    const text = openSecrets(sealed, indexKey);
    if (text === undefined) throw new Error(`the secrets of ${key} do not open`);
    return Buffer.from(text);
  };
}

export function sealedOptions({ recipient, file }: Key): View['options'] {
  return ['--encrypt', recipient, '--identity', file];
}
