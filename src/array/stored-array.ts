// Opens the store of an array from `<url>` and --task-name. It uses the same options, variables and credentials as
// --to.
import type { Line, Tools } from '../cli/command.ts';
import { IDENTITY } from '../cli/options/identity.ts';
import { SEALING } from '../cli/options/sealing.ts';
import type { Option } from '../cli/options/spec.ts';
import { inNamespace, kindFlags, STORE } from '../cli/options/store.ts';
import { CaptureError, isMistake } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';
import { parseRecordKey, taskPrefix, TASKS_PREFIX } from '../model/format/keys.ts';
import { isTaskName } from '../model/format/task-name.ts';
import type { SealSettings, StoreSettings } from '../model/format/settings.ts';
import { showPath } from '../model/path.ts';
import { INDEX } from '../scheduler/identity.ts';
import { openSealKeys } from '../seal/keys.ts';
import { sealedStore } from '../seal/sealed-store.ts';
import type { Store } from '../store/contract/store.ts';
import { warnOnce } from '../log/once.ts';
import { KIND_OPTIONS, type KindOption, openStore } from '../store/open.ts';
import { parseStoreUrl } from '../store/url.ts';
import { Outage } from './outage.ts';

const OF_KINDS = Object.entries<KindOption>(KIND_OPTIONS).map(([name, { isForWrites = false }]) => ({
  option: STORE[name as keyof typeof KIND_OPTIONS],
  isForWrites,
}));

/** Options for the connection to the store, and those that only a command that writes has, too. */
export const STORE_OPTIONS: readonly Option[] = OF_KINDS.flatMap((one) =>
  one.isForWrites ? [] : [one.option],
);
export const WRITING_OPTIONS: readonly Option[] = OF_KINDS.map(({ option }) => option);

/** The options that select the array; all commands have them. */
export const ADDRESS_OPTIONS: readonly Option[] = [
  {
    ...IDENTITY.taskName,
    group: STORE.to.group,
    help: 'which task, if several share the prefix',
    otherwise: 'the only one that is there',
  },
  ...STORE_OPTIONS,
];

/** Of the commands that open what is encrypted. */
export const OPENING_OPTIONS: readonly Option[] = [SEALING.identityFile, SEALING.identityCommand];

/** The address from the command line. */
export interface ArrayAddress {
  readonly settings: StoreSettings;
  /** Undefined: no identity is given. */
  readonly seal?: SealSettings | undefined;
  /** What gpg has sealed is opened: that takes a child for each index. */
  readonly opens?: boolean;
  readonly taskName: string | undefined;
}

/** An array and its open store. */
export interface StoredArray {
  readonly store: Store;
  readonly taskName: string;
}

/** Without a URL: the store of a run without `--to` and `--namespace`. Undefined if a mistake was reported. */
export function readAddress({ title, operands, env, values, cwd }: Line): ArrayAddress | undefined {
  const taskName = values.of(IDENTITY.taskName);
  const ofVariable = operands.url === undefined;
  // Scripts set a variable to an empty string to mean "not set".
  const name = env['CAPTURE_NAMESPACE'] || undefined;
  const text = operands.url ?? inNamespace(env['CAPTURE_TO'] || STORE.to.default, name);
  const found = parseStoreUrl(text, ofVariable ? 'CAPTURE_TO' : title, cwd);
  if (isMistake(found)) {
    values.refuseAll([found]);
    return undefined;
  }
  const [identityFile, identityCommand] = [
    values.of(SEALING.identityFile),
    values.of(SEALING.identityCommand),
  ];
  const seal = { to: [], identityFile, identityCommand };
  return { settings: { url: found, flags: kindFlags(values), unfenced: false }, seal, taskName };
}

type HeardTools = Pick<Tools, 'log'> & Partial<Pick<Tools, 'env' | 'signal'>>;

/**
 * Opens the store of an array, and tells the user about its outages. Sends no request yet. The caller closes the store.
 */
export async function openHeard(
  { settings, seal, opens = false }: ArrayAddress,
  { log, env = process.env, signal = new AbortController().signal }: HeardTools,
): Promise<{ readonly store: Store; close(): Promise<void> }> {
  const keys = await openSealKeys(seal, env, { signal, withGpg: opens });
  const outage = new Outage(settings.url, log);
  const opened = await openStore(settings, {
    onTry: outage.tried,
    warn: (warning) => warnOnce(log, warning),
  });
  const store = sealedStore(opened, { keys, reader: 'look' });
  // A directory is walked in one go, which may take long without being an outage.
  if (store.listsByPage) outage.asked();
  return {
    store,
    close: async () => {
      outage.close();
      await store.close();
    },
  };
}

/**
 * Finds the task if none was given, with one request. Throws status 64 if several tasks share the prefix, and 66 if
 * nothing is stored there.
 */
export async function findArray(
  store: Store,
  { taskName }: Pick<ArrayAddress, 'taskName'>,
  signal: AbortSignal,
): Promise<StoredArray> {
  return { store, taskName: taskName ?? (await onlyTask(store, signal)) };
}

/**
 * The tasks that have stored something. Some servers answer a listing with a delimiter with nothing; then the keys
 * themselves say it.
 */
export async function taskNames(store: Store, signal: AbortSignal): Promise<readonly string[]> {
  const folders = (await store.folders(TASKS_PREFIX, signal)).filter(isTaskName);
  if (folders.length > 0 || !store.listsByPage) return folders;
  const names = new Set<string>();
  for await (const { key } of store.list(TASKS_PREFIX, signal))
    names.add(key.slice(TASKS_PREFIX.length).split('/', 1)[0] ?? '');
  return [...names].filter(isTaskName);
}

async function onlyTask(store: Store, signal: AbortSignal): Promise<string> {
  const names = await taskNames(store, signal);
  const [name] = names;
  if (name === undefined) throw nothingThere(store, undefined, await store.folders('', signal));
  if (names.length === 1) return name;
  const shown = names.slice(0, 10).join(', ');
  const more = names.length > 10 ? ` and ${names.length - 10} more` : '';
  throw new CaptureError(EXIT.usage, `${names.length} tasks share ${store.url}: ${shown}${more}`, {
    hint: `say which with --task-name ${name}`,
  });
}

/** Finds the index if none was given. Throws status 64 if several are stored, and 66 if none is. */
export async function onlyIndex({ store, taskName }: StoredArray, signal: AbortSignal): Promise<string> {
  const prefix = taskPrefix(taskName);
  let found: string | undefined;
  for await (const { key } of store.list(prefix, signal)) {
    const [index = ''] = key.slice(prefix.length).split('/', 1);
    if (parseRecordKey(key) === undefined || !INDEX.test(index) || index === found) continue;
    if (found !== undefined)
      throw new CaptureError(EXIT.usage, `several indices of ${taskName} are stored under ${store.url}`, {
        hint: `say which, after the <url>: ${found}; capture status ${store.url} shows which there are`,
      });
    found = index;
  }
  if (found === undefined) throw nothingThere(store, taskName);
  return found;
}

/** The error that capture has written nothing below the prefix. `below`: the folders that are there. */
export function nothingThere({ url }: Store, taskName?: string, below: readonly string[] = []): CaptureError {
  const of = taskName === undefined ? '' : ` of task ${taskName}`;
  const whole = 'name the prefix that the jobs were given as --to';
  const others = below.slice(0, MOST_SHOWN).map((name) => `${url}/${showPath(name)}`);
  const more = below.length > others.length ? ', ...' : '';
  const where = others.length === 0 ? '' : `: perhaps ${others.join(', ')}${more}`;
  const names = taskName === undefined ? '' : ', and leave --task-name out to see which tasks are there';
  return new CaptureError(EXIT.inputMissing, `nothing is stored${of} under ${url}`, {
    hint: whole + where + names,
  });
}

const MOST_SHOWN = 5;

export function noIndex({ store, taskName }: StoredArray, index: string): CaptureError {
  return new CaptureError(
    EXIT.inputMissing,
    `nothing is stored of index ${index} of ${taskName} under ${store.url}`,
    {
      hint: `capture status ${store.url} shows which there are`,
    },
  );
}
