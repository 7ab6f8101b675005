// The options of encryption: for whom objects are sealed, and what opens sealed ones.
import path from 'node:path';
import { errnoOf, reasonOf } from '../../model/errors.ts';
import { isGpg } from '../../model/format/recipient.ts';
import type { SealSettings } from '../../model/format/settings.ts';
import { showPath } from '../../model/path.ts';
import { MOST_LIST_BYTES } from '../../native/named-file.ts';
import { absolutePath, shellCommand } from './readers.ts';
import { ALL, CAPTURING, group } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

export const SEALING = group('Encryption:', {
  encrypt: {
    flags: '--encrypt <recipient>',
    kind: 'list',
    help: 'store only what this recipient (age1..., or gpg:KEYID) can read; repeatable, or @file with one a line',
    on: CAPTURING,
  },
  identityFile: {
    flags: '--identity <file>',
    help: 'the identity of age (AGE-SECRET-KEY-1...) that opens what is encrypted',
    on: ALL,
    read: absolutePath,
    answeredBy: 'identity-command',
  },
  identityCommand: {
    flags: '--identity-command <command>',
    help: 'a command that prints the identity',
    on: ALL,
    read: shellCommand,
    answeredBy: 'identity',
  },
});

const RECIPIENT = /^age1[02-9ac-hj-np-z]{8,}$/;
/** An id of 8 or 16 digits, a fingerprint, or an address. */
const GPG_RECIPIENT =
  /^gpg:(?:(?:0x)?(?:[\dA-F]{8}|[\dA-F]{16}|[\dA-F]{40}|[\dA-F]{64})|[\w.+][\w.+-]*@[\w.-]+)$/i;
const HINT =
  'age-keygen -y key.txt prints it: age1...; for a key of gpg, gpg: and its fingerprint or address';

export function sealingOf(values: Values, caller: RunCaller): SealSettings | undefined {
  const { identityFile, identityCommand } = values.all(SEALING);
  const to = recipientsOf(values, caller);
  const isUsed = to.length > 0 || identityFile !== undefined || identityCommand !== undefined;
  return isUsed ? { to, identityFile, identityCommand } : undefined;
}

function recipientsOf(values: Values, { cwd, outside }: RunCaller): readonly string[] {
  const given = values.given(SEALING.encrypt);
  if (given === undefined) return [];
  const { source } = given;
  const recipients = new Set<string>();
  const take = (text: string, from: string): void => {
    if (RECIPIENT.test(text) || GPG_RECIPIENT.test(text)) recipients.add(text);
    else values.refuse(`${from} '${showPath(text)}': ${whyNot(text)}`, HINT);
  };
  for (const text of given.values) {
    if (!text.startsWith('@')) {
      take(text, source);
      continue;
    }
    const file = text.slice(1);
    try {
      const lines = outside.readText(path.resolve(cwd, file), MOST_LIST_BYTES).split('\n');
      const named = lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
      if (named.length === 0)
        values.refuse(
          `${source} '@${showPath(file)}': the file names no recipient`,
          `write one a line; ${HINT}`,
        );
      for (const one of named) take(one, `${source} @${showPath(file)}:`);
    } catch (error) {
      const why = errnoOf(error) === 'ENOENT' ? 'no such file' : reasonOf(error);
      values.refuse(`${source} '@${showPath(file)}': cannot read the recipients: ${why}`, HINT);
    }
  }
  const all = [...recipients];
  if (all.some(isGpg) && !all.every(isGpg))
    values.refuse(
      `${source} names recipients of age and of gpg`,
      'take one kind: what one array stores is opened by age, or by gpg',
    );
  return all;
}

function whyNot(text: string): string {
  if (text.startsWith('AGE-SECRET-KEY-'))
    return 'this is an identity, which opens what is encrypted: keep it secret';
  if (isGpg(text)) return 'no id, fingerprint or address of a key';
  return 'no recipient of age or gpg; a passphrase is for people, and none is asked for';
}
