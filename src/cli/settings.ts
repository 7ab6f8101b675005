// From the options that were given to settings: defaults, meanings, and everything that is wrong with them at
// once. Reads nothing but what it is given.
import path from 'node:path';
import type { Identity, Settings, StoreSettings, Verification } from '../model/format/settings.ts';
import { isMistake, type Mistake } from '../model/mistake.ts';
import { showPath } from '../model/path.ts';
import { defaultGraceMs } from '../scheduler/grace.ts';
import { identify } from '../scheduler/identity.ts';
import { slurmJob } from '../scheduler/slurm-job.ts';
import { parseStoreUrl, storeDirectory } from '../store/url.ts';
import type { GivenOptions } from './command-line.ts';
import { contradictions } from './contradictions.ts';
import { socketMistakes } from './flush-line.ts';
import { noticesOf } from './notice-options.ts';
import type { CommandName, OptionName } from './options.ts';
import type { Outside } from './outside.ts';
import { checkPattern } from './pattern.ts';
import { readPatterns } from './patterns.ts';
import * as read from './readers.ts';
import { DEFAULT_TASK_NAME, taskNameOf } from './task-name.ts';
import { valuesOf, type Values } from './values.ts';

/** No `--to`: good enough to try capture out. */
const DEFAULT_STORE = 'capture-store';

export interface SettingsInput {
  readonly command: CommandName;
  readonly given: GivenOptions;
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** The task's command line; empty for `watch` and `restore`. */
  readonly argv: readonly string[];
  readonly outside: Outside;
}

export interface SettingsOutput {
  /** To be used only when there are no mistakes. */
  readonly settings: Settings;
  readonly mistakes: readonly Mistake[];
}

export function settingsOf(input: SettingsInput): SettingsOutput {
  const { command, given, cwd, env, outside } = input;
  const mistakes: Mistake[] = [];
  const values = valuesOf(given, mistakes);
  const on = (name: OptionName): boolean => given.has(name);
  const pathOf = (name: OptionName): string | undefined => {
    const file = values.optional(name, read.filePath);
    return file === undefined ? undefined : path.resolve(cwd, file);
  };
  const workdir = pathOf('workdir') ?? cwd;
  mistakes.push(...workdirMistakes(workdir, given, outside));
  const patterns = (name: OptionName): readonly string[] => {
    const found = readPatterns(given.get(name), { cwd, workdir, outside });
    mistakes.push(...found.mistakes);
    return found.patterns;
  };
  const pattern = (text: string, source: string): string | Mistake => checkPattern(text, source, workdir);
  const store = (name: 'to' | 'from', fallback: string): StoreSettings => ({
    url: values.with(name, (text, source) => parseStoreUrl(text, source, cwd), fallback),
    pathStyle: on('path-style'),
    unfenced: on('unfenced'),
  });
  const to = store('to', parseDefaultStore(cwd));
  const results = patterns('results');
  // The result that counts is a result, whether or not another pattern says so.
  const doneWhen = values.with('done-when', pattern, undefined);
  const settings: Settings = {
    manifest: {
      results: doneWhen === undefined ? results : [...new Set([...results, doneWhen])],
      checkpoints: patterns('checkpoints'),
      inputs: patterns('inputs'),
      companions: patterns('companions'),
      exclude: patterns('exclude'),
      newest: values.optional('newest', read.count(1, Infinity)),
    },
    to,
    perishableStore: !on('to') || standsBelow(workdir, to.url),
    from: on('from') ? store('from', to.url) : undefined,
    identity: identityOf(input, values, mistakes),
    workdir,
    sharedWorkdir: on('shared-workdir'),
    control: controlOf(given, pathOf('control'), mistakes),
    exitFile: pathOf('exit-file'),
    handoff: on('handoff'),
    reclaim: on('keep') || on('shared-workdir') ? 'never' : values.one('reclaim', read.reclaimMode, 'auto'),
    compression: values.one('compression', read.compression, { kind: 'zstd', level: 1 }),
    companionIntervalMs: values.one('companion-interval', read.durationMs(1000), 60_000),
    checkpointSettleMs: values.one('checkpoint-settle', read.durationMs(), 2000),
    checkpointLast: values.with('checkpoint-last', pattern, undefined),
    generations: values.one('generations', read.count(1, 1000), 2),
    graceMs: values.one('grace', read.durationMs(), defaultGraceMs(env)),
    drainTimeoutMs: values.one('drain-timeout', read.durationMs(), 3_600_000),
    rescanMs: values.one('rescan', read.durationMs(1000), 60_000),
    // Beside a task's container the files are already those of the task: `capture restore` went before.
    restore: command !== 'watch' && !on('no-restore'),
    skipDone: on('skip-done'),
    onLocal: values.one('on-local', read.onLocal, 'stored'),
    preemptedStatus: values.one('preempted-status', read.count(1, 255), 75),
    maxAttempts: values.optional('max-attempts', read.count(1, Infinity)),
    requeue: values.optional('requeue', read.requeueEngine) === undefined ? undefined : slurmJob(env),
    endRules: {
      requireResults: on('require-results'),
      doneWhen,
      againStatuses: values.each('again-status', read.count(1, 255)),
      trustedStatuses: values.each('trust-exit', read.count(1, 255)),
    },
    notices: noticesOf(values, cwd),
    verify: verificationOf(command, values),
    workers: values.one('lanes', read.count(1, 16), 2),
    spoolDir: pathOf('spool'),
    spoolLimitBytes: values.one('spool-limit', read.sizeBytes, 2 ** 30),
    log: {
      level: values.one('log-level', read.logLevel, 'info'),
      format: values.one('log-format', read.logFormat, 'text'),
      file: pathOf('log-file'),
    },
  };
  mistakes.push(...contradictions(given, settings));
  return { settings, mistakes };
}

/** Beside a task that somebody else runs nothing is restored: there only a commit can be verified. */
function verificationOf(name: CommandName, values: Values<OptionName>): Verification | undefined {
  const command = values.optional('verify-checkpoint', read.shellCommand);
  const at = values.one('verify-at', read.verifyAt, name === 'watch' ? 'commit' : 'restore');
  if (command === undefined) return undefined;
  return { command, atRestore: at !== 'commit', atCommit: at !== 'restore' };
}

function controlOf(given: GivenOptions, path: string | undefined, mistakes: Mistake[]): string | undefined {
  const source = given.get('control')?.source;
  if (path !== undefined && source !== undefined) mistakes.push(...socketMistakes(path, source));
  return path;
}

/** As the user wrote both: a link may lead elsewhere. */
function standsBelow(dir: string, url: string): boolean {
  const directory = storeDirectory(url);
  return directory !== undefined && `${directory}/`.startsWith(`${dir}/`);
}

function parseDefaultStore(cwd: string): string {
  const url = parseStoreUrl(`./${DEFAULT_STORE}`, '--to', cwd);
  return isMistake(url) ? '' : url;
}

function workdirMistakes(workdir: string, given: GivenOptions, outside: Outside): readonly Mistake[] {
  const problem = outside.workdirProblem(workdir);
  if (problem === undefined) return [];
  return [
    {
      message: `cannot work in ${showPath(workdir)}: ${problem}`,
      hint: given.has('workdir')
        ? `make the directory first: mkdir -p ${showPath(workdir)}`
        : 'start capture in a directory that can be written, or name one with --workdir',
    },
  ];
}

function identityOf(
  { given, env, argv, outside }: SettingsInput,
  values: Values<OptionName>,
  mistakes: Mistake[],
): Identity {
  const index = given.get('index');
  const array = identify(
    env,
    index === undefined ? undefined : { value: index.values.at(-1) ?? '', source: index.source },
    outside.readText,
  );
  if (isMistake(array)) mistakes.push(array);
  return {
    taskName: values.one(
      'task-name',
      read.taskName,
      argv.length === 0 ? DEFAULT_TASK_NAME : taskNameOf(argv),
    ),
    index: isMistake(array) ? undefined : array.index,
    indexSource: isMistake(array) ? undefined : array.source,
    runId: values.optional('run', read.runId),
    argv,
    scheduler: isMistake(array) ? {} : array.scheduler,
  };
}
