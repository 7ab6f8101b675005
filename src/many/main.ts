// The entry point of `capture array` and `template` (bin/capture chooses it by the first word): reads the command line,
// carries it out, and exits with the status.
import { fileURLToPath } from 'node:url';
import { realOutside } from '../cli/options/outside.ts';
import { openLog, type Log } from '../log/log.ts';
import { EXIT, type ExitStatus } from '../model/exit-status.ts';
import { prepareMd5 } from '../model/md5.ts';
import { guardInspector } from '../native/inspector.ts';
import { writeText } from '../native/shared-output.ts';
import { ownArguments, ownEnvironment } from '../native/start.ts';
import { runArray } from './command.ts';
import { failed } from '../cli/failed.ts';
import { parseLine, type ParsedLine } from './line.ts';
import { parseTemplateLine } from './template.ts';

/** Beside this module in the bundle (build.mjs). */
const ENTRY = fileURLToPath(new URL('./capture.cjs', import.meta.url));
const SIDECAR_ENTRY = fileURLToPath(new URL('./sidecar.cjs', import.meta.url));
const STDOUT = 1;
const print = (text: string): void => writeText(STDOUT, text);

guardInspector();
// Each task listens for the end of its launcher: that is no leak.
process.setMaxListeners(0);
void main().then((status) => process.exit(status));

async function main(): Promise<ExitStatus> {
  const env = ownEnvironment();
  const [command, ...args] = ownArguments();
  const line =
    command === 'template'
      ? parseTemplateLine(args, JOB_TEMPLATES, env)
      : parseLine(args, { env, cwd: process.cwd(), outside: realOutside });
  if ('text' in line) {
    print(line.text);
    return EXIT.ok;
  }
  // A mistake is never said to the log file, which may be the mistake.
  const log = openLog(line.kind === 'mistakes' ? { ...line.log, level: 'info', file: undefined } : line.log);
  try {
    await prepareMd5();
    return await obey(line, log, env);
  } catch (error) {
    return failed(error, log);
  } finally {
    await log.close();
  }
}

async function obey(
  line: Extract<ParsedLine, { kind: 'mistakes' | 'go' }>,
  log: Log,
  env: NodeJS.ProcessEnv,
): Promise<ExitStatus> {
  if (line.kind === 'mistakes') {
    for (const { message, hint } of line.mistakes) log.error(message, { event: 'mistake', hint });
    return EXIT.usage;
  }
  for (const { message, hint } of line.warnings) log.warn(message, { hint });
  return runArray(line.asked, { log, print, env, entry: ENTRY, sidecarEntry: SIDECAR_ENTRY });
}
