// What the build puts into dist/share: man pages and completions, made from the tables of commands and options.
import { COMPLETIONS } from '../../src/many/completion.ts';
import { bashCompletion, fishCompletion, zshCompletion } from './completion.ts';
import { everyCommand } from './every-command.ts';
import { manPages } from './man.ts';

/** Texts by path below dist/share. */
export function manual(): ReadonlyMap<string, string> {
  const commands = everyCommand();
  const pages = [...manPages(commands, CAPTURE_VERSION)].map(
    ([name, page]) => [`man/man1/${name}`, page] as const,
  );
  return new Map([
    ...pages,
    [COMPLETIONS.bash, bashCompletion(commands)],
    [COMPLETIONS.zsh, zshCompletion(commands)],
    [COMPLETIONS.fish, fishCompletion(commands)],
  ]);
}
