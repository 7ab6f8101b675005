// What completes command lines of capture in a shell. Each file stands alone: it asks capture for nothing. What it does not
// know, it completes as a file.
import type { ShownCommand, ShownOption } from './every-command.ts';

/** For bash(1), "Programmable Completion". */
export function bashCompletion(commands: readonly ShownCommand[]): string {
  const subcommands = ['', ...commands.map(({ name }) => name)].map((name): Row => [
    name,
    wordsBehind(commands, name),
  ]);
  const options = commands.map(({ name, options: all }): Row => [name, all.flatMap(flagsOf)]);
  const withValue = commands.map(({ name, options: all }): Row => [
    name,
    all.filter(hasValue).flatMap(flagsOf),
  ]);
  const values = commands.flatMap(({ name, words, options: all }): readonly Row[] => [
    [name, words],
    ...all.flatMap((option) => flagsOf(option).map((flag): Row => [`${name} ${flag}`, option.words])),
  ]);
  return `# Completion of capture in bash.
${bashTable('_capture_commands', subcommands)}
${bashTable('_capture_options', options)}
${bashTable('_capture_with_value', withValue)}
${bashTable('_capture_values', values)}
_capture() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} name=run found= at
  # --option=value comes as three words.
  case $word,$before in
    =,*) word= ;;
    *,=) before=\${COMP_WORDS[COMP_CWORD - 2]} ;;
  esac
  COMPREPLY=()
  for ((at = 1; at < COMP_CWORD; at++)); do
    # The command line of the task.
    if [[ \${COMP_WORDS[at]} == -- ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset $((at + 1)); fi
      return
    fi
  done
  for ((at = 1; at < COMP_CWORD && at < 3; at++)); do
    found=\${found:+$found }\${COMP_WORDS[at]}
    if [[ -n $(_capture_options "$found") ]]; then name=$found; fi
  done
  if [[ " $(_capture_with_value "$name") " == *" $before "* ]]; then
    found=$(_capture_values "$name $before")
  elif [[ $word == -* ]]; then
    found=$(_capture_options "$name")
  elif ((COMP_CWORD == 1)); then
    found=$(_capture_commands '')
  else
    found="$(_capture_commands "$name") $(_capture_values "$name")"
  fi
  COMPREPLY=($(compgen -W "$found" -- "$word"))
}
complete -o bashdefault -o default -F _capture capture
`;
}

/** For zshcompsys(1), `_arguments`. */
export function zshCompletion(commands: readonly ShownCommand[]): string {
  const cases = commands.map((command) => {
    const { name, options, takesTask, words } = command;
    const below = wordsBehind(commands, name);
    const operand = below.length > 0 || words.length > 0 ? [`'1: :(${[...below, ...words].join(' ')})'`] : [];
    const rest = takesTask ? `'(-)*:: :_normal'` : `'*: :_files'`;
    const specs = [...options.flatMap(zshSpecs), ...operand, rest];
    return `    ${shellWord(name)})\n      _arguments -s -S : \\\n        ${specs.join(' \\\n        ')}\n      ;;`;
  });
  const first = described(commands, '').map(({ word, purpose }) => shellWord(`${word}:${purpose}`));
  const longest = commands.filter(({ name }) => name.includes(' ')).map(({ name }) => shellWord(name));
  return `#compdef capture
# Completion of capture in zsh.
_capture() {
  local name=run
  local -a commands=(
    ${first.join('\n    ')}
  )
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  case "$words[2] $words[3]" in
    ${longest.join(' | ')})
      name="$words[2] $words[3]"
      words=("$words[1]" "\${(@)words[4,-1]}")
      ((CURRENT -= 2))
      ;;
    *)
      if ((\${commands[(I)$words[2]:*]})); then
        name=$words[2]
        shift words
        ((CURRENT--))
      fi
      ;;
  esac
  case $name in
${cases.join('\n')}
  esac
}
_capture "$@"
`;
}

/** For fish, `complete`. */
export function fishCompletion(commands: readonly ShownCommand[]): string {
  const names = commands.map(({ name }) => shellWord(name)).join(' ');
  const lines = commands.flatMap((command) => {
    const { name, options, words } = command;
    const on = `complete -c capture -n ${shellWord(`__capture_is ${shellWord(name)}`)}`;
    const below = described(commands, name).map(
      ({ word, purpose }) => `${on} -f -a ${word} -d ${shellWord(purpose)}`,
    );
    return [
      ...below,
      ...(words.length > 0 ? [`${on} -f -a ${shellWord(words.join(' '))}`] : []),
      ...options.map((option) => `${on} ${fishOption(option)}`),
    ];
  });
  const first = described(commands, '').map(
    ({ word, purpose }) => `complete -c capture -n __capture_first -f -a ${word} -d ${shellWord(purpose)}`,
  );
  return `# Completion of capture in fish.
function __capture_first
  test (count (commandline -opc)) -eq 1
end
# Which command the line is of; none once the command line of the task has begun.
function __capture_is
  set -l words (commandline -opc)
  contains -- -- $words; and return 1
  set -l found run
  contains -- "$words[2]" ${names}; and set found "$words[2]"
  contains -- "$words[2] $words[3]" ${names}; and set found "$words[2] $words[3]"
  test "$found" = "$argv[1]"
end
${[...first, ...lines].join('\n')}
`;
}

type Row = readonly [key: string, words: readonly string[]];

/** A function that prints the words of a key. */
function bashTable(name: string, rows: readonly Row[]): string {
  const cases = rows
    .filter(([, words]) => words.length > 0)
    .map(([key, words]) => `    ${shellWord(key)}) echo ${shellWord(words.join(' '))} ;;\n`);
  return `${name}() {\n  case $1 in\n${cases.join('')}  esac\n}`;
}

function wordsBehind(commands: readonly ShownCommand[], name: string): readonly string[] {
  return described(commands, name).map(({ word }) => word);
}

/** The next words behind the name of a command, and what each is for. */
function described(
  commands: readonly ShownCommand[],
  name: string,
): readonly { readonly word: string; readonly purpose: string }[] {
  const before = name === '' ? '' : `${name} `;
  return commands
    .filter((one) => one.name.startsWith(before) && !one.name.slice(before.length).includes(' '))
    .map((one) => ({ word: one.name.slice(before.length), purpose: one.purpose }));
}

function flagsOf({ short, long }: ShownOption): readonly string[] {
  return short === undefined ? [long] : [short, long];
}

function hasValue({ argument }: ShownOption): boolean {
  return argument !== undefined;
}

/** One for each spelling; those that may not be repeated exclude each other. */
function zshSpecs(option: ShownOption): readonly string[] {
  const { help, words, isRepeated } = option;
  const excluded = isRepeated ? '*' : `(${flagsOf(option).join(' ')})`;
  const value = words.length > 0 ? `(${words.join(' ')})` : '_files';
  return flagsOf(option).map((flag) => {
    const assigned = flag.startsWith('--') && hasValue(option) ? `${flag}=` : flag;
    const about = `[${help.replaceAll(/[[\]\\:]/g, '\\$&')}]`;
    return shellWord(`${excluded}${assigned}${about}${hasValue(option) ? `: :${value}` : ''}`);
  });
}

function fishOption(option: ShownOption): string {
  const { short, long, words, help } = option;
  const given = short === undefined ? '' : `-s ${short.slice(1)} `;
  const value = words.length > 0 ? `-x -a ${shellWord(words.join(' '))}` : '-r -F';
  return `${given}-l ${long.slice(2)} ${hasValue(option) ? `${value} ` : '-f '}-d ${shellWord(help)}`;
}

/** As all three shells quote it. */
function shellWord(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
