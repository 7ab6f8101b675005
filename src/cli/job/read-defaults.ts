// Reads files of defaults (cli/options/defaults.ts).
import path from 'node:path';
import { reasonOf } from '../../model/errors.ts';
import { parseJobFile } from '../../model/many/job-file.ts';
import { showPath } from '../../model/path.ts';
import { MOST_LIST_BYTES } from '../../native/named-file.ts';
import type { Defaults, DefaultsFile } from '../options/defaults.ts';
import { envNameOf } from '../options/spec.ts';
import type { Caller } from '../options/values.ts';
import { JOB_KEYS } from './keys.ts';

/** The environment with the defaults in it, and what the files give. A variable that is set, and not empty, wins. */
export function readDefaults(
  files: readonly DefaultsFile[],
  { env, cwd, outside }: Pick<Caller, 'env' | 'cwd' | 'outside'>,
): { readonly env: NodeJS.ProcessEnv; readonly defaults: Defaults } {
  const found = new Map<string, { readonly text: string; readonly place: string }>();
  const mistakes: Defaults['mistakes'][number][] = [];
  for (const { path: file } of files.filter(({ isThere }) => isThere)) {
    let text: string;
    try {
      text = outside.readText(path.resolve(cwd, file), MOST_LIST_BYTES);
    } catch (error) {
      const message = `cannot read the defaults in '${showPath(file)}': ${reasonOf(error)}`;
      mistakes.push({ message, hint: 'capture config shows which files are read' });
      continue;
    }
    const read = parseJobFile(text, { name: file, keys: JOB_KEYS });
    mistakes.push(...read.mistakes);
    if (read.command !== undefined) {
      const message = `${read.command.place}: a file of defaults names no command`;
      mistakes.push({ message, hint: 'put it into a job file: capture template > job.yaml' });
    }
    for (const [name, { values, place }] of read.given)
      found.set(envNameOf(name), { text: values.join('\n'), place });
    for (const [name, place] of read.off) found.set(envNameOf(name), { text: '0', place });
  }
  const used = [...found].filter(([variable]) => !env[variable]);
  return {
    env: { ...env, ...Object.fromEntries(used.map(([variable, { text }]) => [variable, text])) },
    defaults: { files, places: new Map(used.map(([variable, { place }]) => [variable, place])), mistakes },
  };
}
