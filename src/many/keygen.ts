// `capture keygen`: a new identity of age on stdout, for the key of one run. It needs no store, and writes no file: the
// caller decides who may read it.
import type { Command, Tools } from '../cli/command.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import { newIdentityText } from '../seal/keys.ts';

export const keygenCommand: Command<true> = {
  name: 'keygen',
  help: {
    about:
      'Writes a new identity of age to stdout, as age-keygen does, and its recipient (age1...) to stderr. Whoever has ' +
      'the identity can read what --encrypt has stored for that recipient.',
    statuses: { 0: 'it is written' },
    examples: ['capture keygen > run.key'],
  },
  options: [],
  read: () => true,
  act: keygen,
};

async function keygen(_: true, { out, log }: Tools): Promise<ExitStatus> {
  const { text, recipient } = await newIdentityText();
  await out.write(text);
  if (!out.isTerminal) log.info(`recipient: ${recipient}`);
  return EXIT.ok;
}
