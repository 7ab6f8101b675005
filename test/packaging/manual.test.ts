// Man pages and completion, made from the tables of commands and options.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { expect, it } from 'vitest';
import { bashCompletion } from '../../packaging/manual/completion.ts';
import { everyCommand } from '../../packaging/manual/every-command.ts';
import { manPages } from '../../packaging/manual/man.ts';

const commands = everyCommand();
const pages = manPages(commands, '0.0.0-test');

/** What a page shows: without fonts and escapes. */
function shown(page: string): string {
  return page
    .replaceAll(/\\f[BIR]/g, '')
    .replaceAll('\\-', '-')
    .replaceAll('\\(dq', '"')
    .replaceAll('\\e', '\\');
}

it.each(commands)(
  'the page of $title has its purpose, each option with its variable, each status, each example',
  (command) => {
    const page = shown(pages.get(`${command.title.replaceAll(' ', '-')}.1`) ?? '');
    expect(page).toContain(command.purpose);
    for (const { short, long, argument, help, variable } of command.options) {
      const flags = short === undefined ? long : `${short}, ${long}`;
      expect(page).toContain(`.TP\n${flags}${argument === undefined ? '' : ` ${argument}`}\n${help}\n`);
      if (variable !== undefined) expect(page).toContain(`Variable: ${variable}.`);
    }
    for (const status of Object.keys(command.statuses)) expect(page).toContain(`.TP\n.B ${status}\n`);
    for (const example of command.examples) expect(page).toContain(example);
  },
);

it('npm installs every page', () => {
  const { man } = JSON.parse(fs.readFileSync('package.json', 'utf8')) as { readonly man: readonly string[] };
  expect(new Set(man)).toEqual(new Set([...pages.keys()].map((page) => `dist/share/man/man1/${page}`)));
});

it('no text is taken for a request of man(7)', () => {
  const requests = new Set(
    [...pages.values()].flatMap((page) => [...page.matchAll(/^[.'](\S*)/gm)].map(([, request]) => request)),
  );
  expect(requests).toEqual(new Set(['B', 'BR', 'PP', 'SH', 'SS', 'TH', 'TP', 'br', 'fi', 'nf']));
});

/** What bash offers for the last of these words. */
function completed(...words: readonly string[]): readonly string[] {
  const script = `${bashCompletion(commands)}
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _capture; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync('bash', ['--norc', '-uc', script, 'bash', 'capture', ...words], { encoding: 'utf8' })
    .split('\n')
    .filter((word) => word !== '');
}

it.each<readonly [line: readonly string[], offered: readonly string[]]>([
  [['sta'], ['status']],
  [['status', '--fo'], ['--format']],
  [
    ['status', '--format', ''],
    ['slurm', 'lsf', 'torque', 'lines'],
  ],
  [
    ['status', '--format', '=', 'l'],
    ['lsf', 'lines'],
  ],
  [
    ['status', '--format', '='],
    ['slurm', 'lsf', 'torque', 'lines'],
  ],
  [['--recl'], ['--reclaim']],
  [
    ['--reclaim', 'n'],
    ['now', 'never'],
  ],
  [
    ['run', '--reclaim', 'n'],
    ['now', 'never'],
  ],
  [
    ['queue', ''],
    ['status', 'ui', 'retry', 'cancel', 'drain'],
  ],
  [['queue', 'status', '--js'], ['--json']],
  [['worker', 'pau'], ['pause']],
  [['worker', '--whe'], ['--when-idle']],
  [['template', 'k'], ['kubernetes']],
  [
    ['completion', ''],
    ['bash', 'zsh', 'fish'],
  ],
  // Files, which bash completes itself.
  [['-r', ''], []],
  [['status', '/sha'], []],
  // What the task is asked is not ours.
  [['-r', 'x', '--', './task', '--recl'], []],
])('bash completes %j with %j', (line, offered) => {
  expect(completed(...line)).toEqual(offered);
});
