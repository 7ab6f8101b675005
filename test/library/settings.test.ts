// The settings of the library are the options of the commands: their names, kinds and help.
import { expect, it } from 'vitest';
import { GATHER_OPTIONS } from '../../src/array/gather/options.ts';
import { STATUS_OPTIONS } from '../../src/array/status/options.ts';
import { ADDRESS_OPTIONS } from '../../src/array/stored-array.ts';
import { VERIFY_OPTIONS } from '../../src/array/verify/verify.ts';
import { optionsOf } from '../../src/cli/options.ts';
import { helpOf, type Option } from '../../src/cli/options/spec.ts';
import { OURS } from '../../src/library/words.ts';
import { ARRAY } from '../../src/many/options.ts';

const HEAD = `// Made from the tables of options: npx vitest run test/library/settings.test.ts --update. The settings of the library: each is an
// option of a command, by its name. Durations and sizes carry a unit: '30s', '1GiB'.
`;

const TYPES = { flag: 'boolean', value: 'string | number', list: 'string | readonly string[]' } as const;

/** At most 120 characters a line. */
function comment(text: string): string {
  const line = `  /** ${text} */`;
  if (line.length <= 120) return line;
  const lines = text.replaceAll(/(.{1,115})(?: |$)/g, '   * $1\n');
  return `  /**\n${lines}   */`;
}

function field(option: Option): string {
  const name = option.name.includes('-') ? `'${option.name}'` : option.name;
  return `${comment(helpOf(option))}\n  readonly ${name}?: ${TYPES[option.kind]} | undefined;\n`;
}

function settings(head: string, options: readonly Option[], more = ''): string {
  const own = options.filter(({ name }) => !OURS.has(name));
  return `export interface ${head} {\n${more}${own.map(field).join('')}}\n`;
}

const RUN = optionsOf('run');
const OF_A_TASK = `  /** The task and its arguments; no shell reads them. It replaces the command of the job file. */
  readonly command?: readonly string[] | undefined;
  /** A job file, whose name ends in .yaml. The other settings win over it. */
  readonly job?: string | undefined;
`;

it('are made of the tables of options', async () => {
  const text = [
    HEAD,
    settings('RunSettings', [...RUN, ARRAY.set, ARRAY.tasks], OF_A_TASK),
    settings(
      "RestoreSettings extends Omit<RunSettings, 'command' | 'job' | 'array' | 'tasks'>",
      optionsOf('restore').filter((one) => !RUN.includes(one)),
    ),
    '/** What says which array is meant. */',
    settings('ArraySettings', ADDRESS_OPTIONS),
    settings('StatusSettings extends ArraySettings', Object.values(STATUS_OPTIONS)),
    settings('GatherSettings extends ArraySettings', Object.values(GATHER_OPTIONS)),
    settings('VerifySettings extends ArraySettings', Object.values(VERIFY_OPTIONS)),
  ].join('\n');
  await expect(text.replace('meant. */\n\n', 'meant. */\n')).toMatchFileSnapshot(
    '../../src/library/settings.ts',
  );
});
