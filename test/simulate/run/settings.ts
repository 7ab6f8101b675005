// The settings of a plan, from a command line as a user would write it.
import { realOutside } from '../../../src/cli/options/outside.ts';
import { readLine } from '../../../src/cli/read-line.ts';
import { RUN_SPEC, WATCH_SPEC } from '../../../src/cli/run-spec.ts';
import type { Settings } from '../../../src/model/format/settings.ts';
import { INDEX, TASK_NAME } from '../oracle/oracle.ts';
import type { AttemptPlan, Plan } from '../program/plan.ts';
import { environment } from '../replaced/globals.ts';

export const STORE_DIR = '/store';

interface Place {
  readonly workdir: string;
  readonly exitFile: string;
}

export function settingsOf(plan: Plan, { faults }: AttemptPlan, { workdir, exitFile }: Place): Settings {
  const { files, store, options, command } = plan;
  const results = files.filter(({ role }) => role === 'result').flatMap(({ name }) => ['-r', name]);
  const members = files.filter(({ role }) => role === 'member').map(({ name }) => patternOf(name, plan));
  const patterns = [...results, ...[...new Set(members)].flatMap((pattern) => ['-k', pattern])];
  const notices = faults.flatMap((fault) =>
    fault.kind === 'notice' ? ['--notice', `after:${fault.atMs}ms`, '--grace', `${fault.graceMs}ms`] : [],
  );
  const to = store === 's3' ? ['--to', 's3://bucket/p', '--path-style'] : ['--to', STORE_DIR];
  const own = command === 'watch' && plan.exitFile !== 'none' ? ['--exit-file', exitFile] : [];
  const common = [
    ...to,
    '--workdir',
    workdir,
    '--index',
    INDEX,
    '--task-name',
    TASK_NAME,
    ...patterns,
    ...options,
    ...notices,
  ];
  const spec = command === 'watch' ? WATCH_SPEC : RUN_SPEC;
  const words = command === 'watch' ? [...common, ...own] : [...common, '--', '/bin/task'];
  const line = `${command} ${words.join(' ')}`;
  const read = known.get(line);
  if (read !== undefined) return read;
  const parsed = readLine(spec, words, { env: environment, cwd: workdir, outside: realOutside });
  if (parsed.kind !== 'go') throw new Error(`the plan is no ${command}: ${JSON.stringify(parsed)}`);
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(line, parsed.request.settings);
  return parsed.request.settings;
}

/** By the command line. Many plans have the same. */
const known = new Map<string, Settings>();
const MOST_KNOWN = 20_000;

function patternOf(name: string, { rotates, directory }: Plan): string {
  if (directory !== undefined) return rotates > 0 ? 'ck.*/' : 'ck/';
  return rotates > 0 ? `${name}.*` : name;
}
