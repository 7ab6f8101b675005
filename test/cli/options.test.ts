// Holds what an option's spec says together with its line in docs/options.md, with the help, and with what is read.
import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ARRAY_COMMANDS } from '../../src/array/commands.ts';
import { flushCommand } from '../../src/cli/flush.ts';
import { optionsOf, RUN_OPTIONS } from '../../src/cli/options.ts';
import { envNameOf, helpOf, type RunName } from '../../src/cli/options/spec.ts';
import type { Outside } from '../../src/cli/options/outside.ts';
import { SHIM_VARIABLES } from '../../src/launch/inherited.ts';
import { MANY_COMMANDS } from '../../src/many/commands.ts';
import { QUEUE_COMMANDS } from '../../src/many/queue/commands.ts';
import { noFiles, optionOf, parse } from './given.ts';

const NAMES = RUN_OPTIONS.map(({ name }) => name);

const ROOT = new URL('../../', import.meta.url);
const textOf = (path: string): string => fs.readFileSync(new URL(path, ROOT), 'utf8');

interface Row {
  /** The heading above it. */
  readonly section: string;
  /** `--grace <duration>` */
  readonly flags: string;
  /** `r w s` */
  readonly commands: string;
  /** As it stands there: a value is code or a number. */
  readonly default: string;
}

/** The lines of options in docs/options.md, in order. */
function rowsOf(page: string): readonly Row[] {
  let [section, columns]: [string, readonly string[]] = ['', []];
  return page.split('\n').flatMap((line) => {
    if (line.startsWith('## ')) section = line.slice('## '.length);
    if (!line.startsWith('|')) return [];
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
    if (cells[1] === 'option') columns = cells;
    if (!cells[1]?.startsWith('`-')) return [];
    const at = columns.indexOf('default');
    return [
      {
        section,
        flags: cells[1].replaceAll('`', ''),
        commands: /^[rws ]+$/.exec(cells[2] ?? '')?.[0] ?? '',
        default: at === -1 ? '' : (cells[at] ?? ''),
      },
    ];
  });
}

const FLUSH = 'capture flush';
const PAGE = rowsOf(textOf('docs/options.md'));
const ROWS: ReadonlyMap<string, Row> = new Map(
  PAGE.filter(({ section }) => section !== FLUSH).map((row) => [
    /--([a-z-]+)/.exec(row.flags)?.[1] ?? '',
    row,
  ]),
);
const LETTER: Readonly<Record<RunName, string>> = { run: 'r', watch: 'w', restore: 's' };

/** Without code, links and their parentheses. */
const inWords = (cell: string): string => cell.replaceAll('`', '').replaceAll(/ \(\[[^)]*\)\)/g, '');

describe('docs/options.md', () => {
  it('has a line for each option, in the order of the help and under its heading, and for no other', () => {
    expect([...ROWS].map(([name, { section }]) => `${section}: ${name}`)).toEqual(
      RUN_OPTIONS.map(({ name, group }) => `${group.replace(/[:(].*/, '').trim()}: ${name}`),
    );
  });

  it.each(NAMES)('says of --%s how it is written, and what it takes', (name) => {
    const { flags, read } = optionOf(name);
    const shown = ROWS.get(name)?.flags ?? '';
    expect(shown.replace(/ [^-]\S*$/, '')).toBe(flags.replace(/ <.*/, ''));
    // Where the page lists the words themselves, each is understood.
    const [listed] = / ([^-<]\S*)$/.exec(shown)?.slice(1) ?? [];
    if (listed === undefined) expect(shown).toBe(flags);
    for (const word of listed?.replaceAll(/\[.*?\]/g, '').split('|') ?? []) {
      expect(read?.(word), word).toHaveProperty('value');
    }
  });

  it.each(NAMES)('says of --%s to which commands it means something', (name) => {
    expect(ROWS.get(name)?.commands).toBe(
      optionOf(name)
        .on.map((command) => LETTER[command])
        .join(' '),
    );
  });

  it.each(NAMES)('says the default of --%s', (name) => {
    const { kind, default: text, otherwise } = optionOf(name);
    const cell = ROWS.get(name)?.default ?? '';
    const said = kind === 'flag' ? 'off' : (text ?? otherwise);
    if (said !== undefined) expect(inWords(cell)).toBe(said);
    // What is not there may be explained in words; a value would be a promise.
    else expect(cell).not.toMatch(/`|^\d/);
  });

  it('says of capture flush what its options say', () => {
    const rows = PAGE.filter(({ section }) => section === FLUSH);
    expect(rows.map(({ flags, default: cell }) => `${flags}: ${inWords(cell)}`)).toEqual(
      flushCommand.options.map(
        ({ flags, kind, otherwise }) => `${flags}: ${kind === 'flag' ? 'off' : otherwise}`,
      ),
    );
  });

  it('explains each other variable that is read, and no other', () => {
    const sources = fs.readdirSync(new URL('src', ROOT), { recursive: true, encoding: 'utf8' });
    const read = sources
      .filter((path) => path.endsWith('.ts'))
      .flatMap((path) => [...textOf(`src/${path}`).matchAll(/'(CAPTURE_[A-Z_]+)'/g)]);
    const ofShim = textOf('bin/capture').matchAll(/\$\{?(CAPTURE_[A-Z_]+)/g);
    const names = new Set([...read, ...ofShim].map(([, name = '']) => name));
    const others = [...names].filter((name) => !OF_OPTIONS.has(name) && !OF_SHIM.has(name));
    expect(others.toSorted()).toEqual([...OTHERS].toSorted());
  });

  it('and each other page name no variable but these', () => {
    const inDocs = fs.readdirSync(new URL('docs', ROOT), { recursive: true, encoding: 'utf8' });
    const pages = [...fs.readdirSync(ROOT), ...inDocs.map((name) => `docs/${name}`)].filter((name) =>
      name.endsWith('.md'),
    );
    const named = pages.flatMap((path) => [...textOf(path).matchAll(/\bCAPTURE_[A-Z_]*[A-Z]/g)].map(String));
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((name) => !OF_OPTIONS.has(name) && !OTHERS.has(name))).toEqual([]);
  });
});

/** Each option of each command has one. */
const OF_OPTIONS = new Set(
  [
    ...RUN_OPTIONS,
    ...[...ARRAY_COMMANDS, ...MANY_COMMANDS, ...QUEUE_COMMANDS].flatMap(({ options }) => options),
  ].map(({ name }) => envNameOf(name)),
);
/** From bin/capture to the launcher: nobody else sets them. */
const OF_SHIM: ReadonlySet<string> = new Set(SHIM_VARIABLES);
const OTHERS: ReadonlySet<string> = new Set(
  [...(textOf('docs/options.md').split('## Other variables')[1] ?? '').matchAll(/^\| `(CAPTURE_\w+)`/gm)].map(
    ([, name = '']) => name,
  ),
);

describe.each(['run', 'watch', 'restore'] as const)('the help of %s', (command) => {
  it('says of each option what its spec says, with its default', () => {
    const result = parse([command, '--help']);
    const text = result.kind === 'text' ? result.text.replaceAll(/\s+/g, ' ') : '';
    for (const option of optionsOf(command)) expect(text).toContain(`${option.flags} ${helpOf(option)}`);
  });
});

/** Each option takes one of these that is not its default. */
const TEXTS =
  '1 x 7 90s 2GiB 9MB/s never newest zstd:6 none USR1 after:90s commit slurm debug json kms a=b age1qqqqqqqqqqqq'.split(
    ' ',
  );

/** Some mean nothing alone. */
const BESIDE: Readonly<Record<string, readonly string[]>> = {
  'verify-at': ['--verify-checkpoint', 'true'],
  'log-output-limit': ['--log-output'],
};
const ENV = { SLURM_JOB_ID: '9', JOB_ARRAY_INDEX: '0' };
const ONE_FILE: Outside = {
  ...noFiles,
  readText: (file) => (file === '/w/x' ? 'mapped\n' : noFiles.readText(file)),
};

/** What a command line of the option's first command comes to; undefined when it is wrong. */
function meaning(name: string, argv: readonly string[], env: NodeJS.ProcessEnv = {}): unknown {
  const [command = 'run'] = optionOf(name).on;
  const task = command === 'run' ? ['--', 'true'] : [];
  const line = [command, ...argv, ...(BESIDE[name] ?? []), ...task];
  const { kind, ...asked } = parse(line, { ...ENV, ...env }, ONE_FILE, { cwd: '/w' });
  if (kind === 'mistakes') return undefined;
  // The source of an index is what it came from.
  return JSON.parse(JSON.stringify(asked).replace(envNameOf(name), `--${name}`));
}

const onLine = (name: string, text = ''): readonly string[] => [
  optionOf(name).kind === 'flag' ? `--${name}` : `--${name}=${text}`,
];

describe('each option', () => {
  it.each(NAMES)('--%s is read, and its variable in the environment as well', (name) => {
    const without = meaning(name, []);
    const text = TEXTS.find((text) => {
      const asked = meaning(name, onLine(name, text));
      return asked !== undefined && JSON.stringify(asked) !== JSON.stringify(without);
    });
    expect(text, 'one of these texts has an effect').toBeDefined();
    expect(meaning(name, [], { [envNameOf(name)]: text })).toEqual(meaning(name, onLine(name, text)));
  });

  it.each(NAMES.filter((name) => optionOf(name).default !== undefined))(
    '--%s has the default that its spec names',
    (name) => {
      expect(meaning(name, onLine(name, optionOf(name).default))).toEqual(meaning(name, []));
    },
  );
});
