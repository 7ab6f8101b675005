// Options from the environment: CAPTURE_RESULTS for --results. The command line wins over a variable.
import { SHIM_VARIABLES } from '../launch/inherited.ts';
import type { Mistake } from '../model/errors.ts';
import { showPath } from '../model/path.ts';
import { nearestWord } from '../model/nearest.ts';
import { OF_MANY } from './job/keys.ts';
import { OPTION_NAMES } from './options.ts';
import { envNameOf, type Given, type GivenOf, type Option } from './options/spec.ts';

/** The options that are given, by the command line or else by the environment: of `options` only. */
export function withEnvironment<Name extends string>(
  given: GivenOf<Name>,
  env: NodeJS.ProcessEnv,
  options: readonly Option<Name>[],
): { readonly given: GivenOf<Name>; readonly mistakes: readonly Mistake[] } {
  const all = new Map<Name, Given>(given);
  const onLine: ReadonlySet<string> = new Set(given.keys());
  const mistakes: Mistake[] = [];
  for (const option of options) {
    const { name } = option;
    const source = envNameOf(name);
    const text = env[source] ?? '';
    // Scripts set a variable to nothing where they mean "not set".
    if (text === '' || onLine.has(name) || onLine.has(option.answeredBy ?? name)) continue;
    const read = readVariable(option, text);
    if (read === undefined) {
      mistakes.push({
        message: `${source} '${showPath(text)}': neither 1 nor 0`,
        hint: `${source}=1, or unset ${source}`,
      });
    } else if (read.length > 0) {
      all.set(name, { values: read, source });
    }
  }
  return { given: all, mistakes };
}

/** The values, none for a flag that is off; undefined if a flag's value is neither on nor off. */
function readVariable({ kind }: Option, text: string): readonly string[] | undefined {
  switch (kind) {
    case 'list':
      return text
        .split('\n')
        .map((line) => line.trim())
        .filter((line) => line !== '');
    case 'value':
      return [text];
    case 'flag':
      if (text === '1' || text === 'true') return ['1'];
      return text === '0' || text === 'false' ? [] : undefined;
  }
}

/** Variables that look like a mistyped one of ours. Without a warning nobody would see that they do nothing. */
export function mistypedVariables(env: NodeJS.ProcessEnv): readonly Mistake[] {
  const ours = OPTION_NAMES.map(envNameOf);
  // CAPTURE_QUEUE stands in many a profile.
  const ofMany = Object.keys(OF_MANY).map(envNameOf);
  const known = new Set<string>([...ours, ...ofMany, ...SHIM_VARIABLES]);
  return Object.keys(env)
    .filter((name) => name.startsWith('CAPTURE_') && !known.has(name))
    .flatMap((name) => {
      const nearest = nearestWord(
        name.slice('CAPTURE_'.length),
        ours.map((one) => one.slice('CAPTURE_'.length)),
      );
      if (nearest === undefined) return [];
      return [
        { message: `${showPath(name)} is no option's variable and is not read`, hint: `CAPTURE_${nearest}` },
      ];
    });
}
