// `capture config`: shows each default of a run, and where it comes from.
import type { Command } from '../cli/command.ts';
import { CONFIG_VARIABLE, type Defaults, defaultsFiles } from '../cli/options/defaults.ts';
import { OF_MANY } from '../cli/job/keys.ts';
import { RUN_OPTIONS } from '../cli/options.ts';
import { envNameOf, type Option } from '../cli/options/spec.ts';
import { withVariables } from '../cli/read-line.ts';
import { Values } from '../cli/options/values.ts';
import type { Mistake } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { showPath } from '../model/path.ts';

type Row = readonly [name: string, value: string, from: string];

export const configCommand: Command<string> = {
  name: 'config',
  help: {
    about:
      'Shows the value of each option if the command line does not give it, and where that value comes from: a ' +
      'variable, a file of defaults, or capture itself.',
    notes: [
      `Files of defaults, a later one wins:
  /etc/capture.yaml                for all users of a site
  $XDG_CONFIG_HOME/capture.yaml    your own (~/.config/capture.yaml if the variable is not set)
  $${CONFIG_VARIABLE}                  this one, too
  Their keys are the names of options, as in a job file. Variables and the command line win.
`,
    ],
    statuses: { 0: 'it is printed' },
    examples: ['capture config'],
  },
  options: [],
  isLight: true,
  needsNoDirectory: true,
  read: (line) => {
    const { env, cwd, defaults } = line;
    const mistakes: Mistake[] = [];
    const given = new Values(withVariables(new Map(), RUN_OPTIONS, line, mistakes), cwd, mistakes);
    for (const option of RUN_OPTIONS) given.of(option);
    line.values.refuseAll(mistakes);
    const files = fileLines(defaults?.files ?? defaultsFiles(env));
    return [...files, '', ...aligned(rowsOf(env, defaults)), ''].join('\n');
  },
  act: async (text, { out }) => {
    await out.write(text);
    return EXIT.ok;
  },
};

function fileLines(files: Defaults['files']): readonly string[] {
  return files.map(({ path, isThere }) => `${showPath(path)}: ${isThere ? 'read' : 'not there'}`);
}

/** All options of a run, and those of many tasks that are set. */
function rowsOf(env: NodeJS.ProcessEnv, defaults: Defaults | undefined): readonly Row[] {
  const ofRun = new Set(RUN_OPTIONS.map(({ name }) => name));
  const ofMany = OF_MANY.filter(({ name }) => !ofRun.has(name)).map(({ name }) => ({ name }));
  return [...RUN_OPTIONS, ...ofMany].flatMap((option: Pick<Option, 'name'> & Partial<Option>): Row[] => {
    const variable = envNameOf(option.name);
    const text = env[variable];
    if (text) {
      const from = defaults?.places.get(variable) ?? variable;
      return [[option.name, text.split('\n').map(showPath).join(', '), from]];
    }
    const own = option.default ?? option.otherwise;
    return own === undefined ? [] : [[option.name, own, 'default']];
  });
}

function aligned(rows: readonly Row[]): readonly string[] {
  const widths = [0, 1].map((at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map(
    ([name, value, from]) => `${name.padEnd(widths[0] ?? 0)}  ${value.padEnd(widths[1] ?? 0)}  ${from}`,
  );
}
