// What the build puts into dist/share: man pages and completions, made from the tables of commands and options, and a
// modulefile.
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
    [`modulefiles/capture/${CAPTURE_VERSION}.lua`, modulefile()],
    [COMPLETIONS.bash, bashCompletion(commands)],
    [COMPLETIONS.zsh, zshCompletion(commands)],
    [COMPLETIONS.fish, fishCompletion(commands)],
  ]);
}

/** For Lmod: it lies in the archive, wherever that is unpacked. */
function modulefile(): string {
  return `help("capture ${CAPTURE_VERSION}: keeps the results and checkpoints of job arrays. man capture")
whatis("Name: capture")
whatis("Version: ${CAPTURE_VERSION}")
local root = myFileName():gsub("/share/modulefiles/.*", "")
prepend_path("PATH", pathJoin(root, "bin"))
`;
}
