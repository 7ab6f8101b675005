// Man pages, in the macros of man(7): one for each command, capture(1) for the run of a task.
import type { ShownCommand, ShownOption } from './every-command.ts';

/** By file name: capture-queue-status.1. */
export function manPages(commands: readonly ShownCommand[], version: string): ReadonlyMap<string, string> {
  return new Map(
    commands.map((command) => [`${pageOf(command.title)}.1`, manPage(command, commands, version)]),
  );
}

function pageOf(title: string): string {
  return title.replaceAll(' ', '-');
}

function manPage(command: ShownCommand, all: readonly ShownCommand[], version: string): string {
  const { name, title, usage, purpose, about, notes, examples, options, statuses, statusNotes } = command;
  const below = all.filter((one) => (name === 'run' ? one !== command : one.name.startsWith(`${name} `)));
  const others = all.filter((one) => one !== command && !below.includes(one));
  return [
    `.TH ${pageOf(title).toUpperCase()} 1 "" "capture ${version}" "capture"\n`,
    section('NAME', [`${text(pageOf(title))} \\- ${text(purpose)}`]),
    section('SYNOPSIS', [`.B ${text(title)}`, text(usage)]),
    section('DESCRIPTION', [text(about)]),
    ...(below.length === 0 ? [] : [section('COMMANDS', below.map(subcommand))]),
    section('OPTIONS', groupsOf(options)),
    ...notes.map(note),
    section('EXIT STATUS', [
      ...statusNotes.map((one) => `.PP\n${text(one.trim())}`),
      ...Object.entries(statuses).map(([status, what]) => `.TP\n.B ${status}\n${text(what)}`),
    ]),
    section('EXAMPLES', [asItIs(examples.join('\n'))]),
    section('SEE ALSO', [others.map((one) => `.BR ${text(pageOf(one.title))} (1)`).join('\n')]),
  ].join('');
}

function section(heading: string, lines: readonly string[]): string {
  return `.SH "${text(heading)}"\n${lines.map((line) => `${line}\n`).join('')}`;
}

function subcommand({ title, purpose }: ShownCommand): string {
  return `.TP\n.BR ${text(pageOf(title))} (1)\n${text(purpose)}`;
}

function groupsOf(options: readonly ShownOption[]): readonly string[] {
  const groups = new Set(options.map((option) => option.group));
  return [...groups].flatMap((title) => [
    `.SS "${text(title)}"`,
    ...options.filter((option) => option.group === title).map(oneOption),
  ]);
}

function oneOption({ long, short, argument, help, isRepeated, variable }: ShownOption): string {
  const flags = [short, long].filter((flag) => flag !== undefined).map((flag) => `\\fB${text(flag)}\\fR`);
  const words = argument === undefined ? '' : ` \\fI${text(argument)}\\fR`;
  const more = [
    ...(isRepeated ? ['It can be given more than once.'] : []),
    ...(variable === undefined ? [] : [`Variable: ${variable}.`]),
  ];
  const lines = [text(help), ...more.map((line) => `.br\n${text(line)}`)];
  return `.TP\n${flags.join(', ')}${words}\n${lines.join('\n')}`;
}

/** A paragraph of the help, whose first line may be its title. */
function note(paragraph: string): string {
  const [, title, rest = paragraph] = /^([^\n]*):\n(.*)$/s.exec(paragraph) ?? [];
  return section(title?.toUpperCase() ?? 'NOTES', [asItIs(rest.trimEnd())]);
}

function asItIs(lines: string): string {
  return `.nf\n${text(lines)}\n.fi`;
}

/** Escaped: a backslash and a dash are characters, a dot or an apostrophe begins no request (groff(7)). */
function text(plain: string): string {
  return plain
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll(/^(?=[.'])/gm, '\\&')
    .replaceAll('"', '\\(dq');
}
