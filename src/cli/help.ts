// Prints --help in the same form for every command, from its table of options, so that no option is missing.
import { Help } from 'commander';
import type { CommandSpec } from './command.ts';
import { commanderOf, type KnownOptions } from './command-line.ts';
import { type CommandName, commandsBehind, purposeOf, usageOf } from './commands.ts';

const WIDTH = 100;

/** The statuses that every command can end with. */
const STATUSES = {
  64: 'an option is wrong (nothing was done)',
  70: 'capture itself failed',
};

const STOPPED = { 143: 'stopped by SIGTERM (130 by SIGINT, ...)' };

export function helpText(command: CommandSpec, known: KnownOptions): string {
  const { name, help } = command;
  const { usage = `${usageOf(name)} [options]`, about, notes = [], examples } = help;
  const text = commanderOf(known).usage(usage.trim()).helpInformation().trimEnd();
  const optionsAt = text.indexOf('\n\n') + 1;
  const commands = commandsBehind(name === 'run' ? '' : `${name} `);
  // What people look for most comes first.
  return [
    text.slice(0, optionsAt),
    `${new Help().boxWrap(about, WIDTH)}\n`,
    `Examples:\n${examples.map((line) => `  ${line}\n`).join('')}`,
    ...(commands.length === 0 ? [] : [`Commands:\n${commandLines(commands)}`]),
    `${text.slice(optionsAt).trimStart()}\n`,
    ...notes,
    `Exit status:\n${statusLines(command)}`,
  ].join('\n');
}

function commandLines(names: readonly CommandName[]): string {
  const texts = names.map((name) => `${name} ${usageOf(name) || '[options]'}`);
  const widest = Math.max(...texts.map((text) => text.length));
  const lines = names.map(
    (name, at) => `  capture ${(texts[at] ?? '').padEnd(widest)}  ${purposeOf(name)}\n`,
  );
  return lines.join('');
}

/** All exit statuses of a command, and what they mean. */
export function statusesOf({ help, handlesSignals }: CommandSpec): Readonly<Record<number, string>> {
  return { ...(handlesSignals ? STATUSES : { ...STATUSES, ...STOPPED }), ...help.statuses };
}

function statusLines(command: CommandSpec): string {
  const { before, behind } = command.help.statusNotes ?? {};
  const indent = ' '.repeat(7);
  const lines = Object.entries(statusesOf(command)).map(([status, text]) => {
    const wrapped = new Help().boxWrap(text, WIDTH - indent.length);
    return `${status.padStart(5)}  ${wrapped.replaceAll('\n', `\n${indent}`)}`;
  });
  return [before, ...lines, behind]
    .flatMap((line) => (line === undefined ? [] : `${line.replace(/^(?! )/, '  ')}\n`))
    .join('');
}
