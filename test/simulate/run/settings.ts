// The settings of a plan, from a command line as a user would write it.
import { parseCommandLine } from '../../../src/cli/parse.ts';
import type { Settings } from '../../../src/model/format/settings.ts';
import { INDEX, TASK_NAME } from '../oracle/oracle.ts';
import type { Plan } from '../program/plan.ts';
import { environment } from '../replaced/globals.ts';

export const STORE_DIR = '/store';

export function settingsOf(plan: Plan, workdir: string, exitFile: string): Settings {
  const { files, store, rotates, options, command } = plan;
  const patterns = files.flatMap(({ name, role }) =>
    role === 'result' ? ['-r', name] : ['-k', rotates > 0 ? `${name}.*` : name],
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
  ];
  const words = command === 'watch' ? ['watch', ...common, ...own] : [...common, '--', '/bin/task'];
  const parsed = parseCommandLine(words, environment, workdir);
  if (parsed.kind !== command) throw new Error(`the plan is no ${command}: ${JSON.stringify(parsed)}`);
  return parsed.settings;
}
