// Settings as words of a command line. Their names are those of the options, as in a job file.
import { UsageError } from './errors.ts';

type Value = string | number | boolean | readonly (string | number)[] | undefined;

/** Options that say how something is printed, which is the library's own affair. */
export const OURS: ReadonlySet<string> = new Set(
  (
    'json list dry-run log-level log-format log-file help version ' +
    'missing failed stale preempted unfinished suggest format all watch every'
  ).split(' '),
);

/** @throws UsageError if the library has no such setting, although capture has the option. */
export function wordsOf(settings: object): readonly string[] {
  return Object.entries(settings as Readonly<Record<string, Value>>).flatMap(([name, value]) => {
    if (OURS.has(name))
      throw new UsageError([
        {
          message: `'${name}' is no setting of the library`,
          hint: 'leave it out; docs/library.md has the settings',
        },
      ]);
    if (value === undefined || value === false) return [];
    return value === true ? [`--${name}`] : [value].flat().map((one) => `--${name}=${one}`);
  });
}
