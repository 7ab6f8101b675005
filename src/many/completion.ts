// `capture completion <shell>`: prints what completes command lines of capture. The build makes these files from the
// tables of commands and options (packaging/manual).
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from '../cli/command.ts';
import { EXIT } from '../model/exit-status.ts';
import { nearestWord } from '../model/nearest.ts';
import { showPath } from '../model/path.ts';

/** In dist/share/, by shell: where a package of a distribution installs it below /usr/share. */
export const COMPLETIONS = {
  bash: 'bash-completion/completions/capture',
  zsh: 'zsh/site-functions/_capture',
  fish: 'fish/vendor_completions.d/capture.fish',
} as const;

const SHELLS = Object.keys(COMPLETIONS) as readonly (keyof typeof COMPLETIONS)[];

export const completionCommand: Command<keyof typeof COMPLETIONS> = {
  name: 'completion',
  help: {
    about:
      'Prints the file with which a shell completes commands, options and their values. Store it where the shell looks ' +
      'for such files, and begin a new shell.',
    statuses: { 0: 'it is printed' },
    examples: [
      'capture completion bash > ~/.local/share/bash-completion/completions/capture',
      'capture completion zsh > ~/.zsh/_capture    # in ~/.zshrc: fpath+=~/.zsh, before compinit',
      'capture completion fish > ~/.config/fish/completions/capture.fish',
    ],
  },
  options: [],
  isLight: true,
  needsNoDirectory: true,
  read: ({ operands: { shell = '' }, values }) => {
    const known = SHELLS.find((one) => one === shell);
    if (known === undefined && shell !== '') {
      const message = `capture completion has no '${showPath(shell)}': there is ${SHELLS.join(', ')}`;
      values.refuse(message, `capture completion ${nearestWord(shell, SHELLS) ?? 'bash'}`);
    }
    return known;
  },
  act: async (shell, { out }) => {
    const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), CAPTURE_ROOT);
    await out.write(fs.readFileSync(path.join(root, 'dist/share', COMPLETIONS[shell]), 'utf8'));
    return EXIT.ok;
  },
};
