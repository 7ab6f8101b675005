// The options for messages: what capture reports, and where. Also whether the task's output is stored.
import type { LogSettings, MetricsPlace, NotifyTarget } from '../../model/format/settings.ts';
import { formatBytes } from '../../model/units.ts';
import { absolutePath, choice, type Reader, sizeBytes } from './readers.ts';
import { ALL, CAPTURING, group, type Option, RUN } from './spec.ts';
import type { Values } from './values.ts';

/** An http:// or https:// URL gets a POST. Everything else is a command. */
const target: Reader<NotifyTarget> = (text) => {
  const example = 'https://example.org/hook';
  if (text.trim() === '' || text.includes('\0')) return { is: 'neither a URL nor a command', example };
  if (!/^https?:/i.test(text)) return { value: { kind: 'command', command: text } };
  const { username, password } = URL.canParse(text) ? new URL(text) : { username: '?', password: '' };
  if (username + password !== '')
    return { is: 'no URL that can be asked (user and password do not belong in it)', example };
  return { value: { kind: 'url', url: text } };
};

/** Each command has its own help text. */
export const NOTIFY_OPTION = { flags: '--notify <url|command>', read: target } as const;

/** `9464`, `0.0.0.0:9464`, `[::1]:9464`; undefined if it is no address. */
function addressOf(text: string): Extract<MetricsPlace, { kind: 'listen' }> | undefined {
  const [, bracketed, plain, port] = /^(?:(?:\[([^\]/]+)\]|([^:/]+)):)?(\d{1,5})$/.exec(text) ?? [];
  return port === undefined
    ? undefined
    : { kind: 'listen', host: bracketed ?? plain ?? LOOPBACK, port: Number(port) };
}

/** Reachable only from this machine. */
const LOOPBACK = '127.0.0.1';
const MOST_PORTS = 65_535;

const portOrPath: Reader<MetricsPlace> = (text, cwd) => {
  const address = addressOf(text);
  if (address !== undefined)
    return address.port > 0 && address.port <= MOST_PORTS
      ? { value: address }
      : { is: 'not a port, 1 to 65535', example: '9464' };
  const file = absolutePath(text, cwd);
  return 'value' in file ? { value: { kind: 'file', path: file.value } } : file;
};

/** A smaller limit could not hold two growing segments (sidecar/output/follower.ts). */
const LEAST_BYTES = 2 ** 20;

const limit: Reader<number> = (text) => {
  const found = sizeBytes(text);
  if (!('value' in found) || found.value >= LEAST_BYTES) return found;
  return { is: `too little: at least ${formatBytes(LEAST_BYTES)}`, example: '16MiB' };
};

export const MESSAGES = group('Messages:', {
  dryRun: { flags: '--dry-run', help: 'print identity, matches and keys; start and store nothing', on: ALL },
  level: {
    flags: '--log-level <level>',
    help: 'debug, info, warn, error or silent',
    on: ALL,
    read: choice('info', 'debug', 'warn', 'error', 'silent'),
    default: 'info',
  },
  format: {
    flags: '--log-format <format>',
    help: 'text or json',
    on: ALL,
    read: choice('text', 'json'),
    default: 'text',
    answeredBy: 'json',
  },
  json: { flags: '--json', help: 'the same as --log-format json', on: ALL, answeredBy: 'log-format' },
  file: {
    flags: '--log-file <file>',
    help: 'append messages to this file; only errors go to stderr as well',
    on: ALL,
    read: absolutePath,
  },
  metrics: {
    flags: '--metrics <port|path>',
    help: 'live numbers for Prometheus, on a port or in a file',
    on: CAPTURING,
    read: portOrPath,
  },
  logOutput: {
    flags: '--log-output',
    help: "store the task's stdout and stderr while it runs, where they go to files or pipes, for capture logs",
    on: RUN,
  },
  noLastLines: {
    flags: '--no-last-lines',
    help: 'do not store the end of what the task wrote to stdout and stderr when it fails',
    on: RUN,
  },
  logOutputLimit: {
    flags: '--log-output-limit <size>',
    help: 'so much of each is kept: the beginning, and the newest',
    on: RUN,
    read: limit,
    default: '64MiB',
  },
});

/** `--json` of a command that prints data says nothing of its messages, so `options` are those of the command. */
export function messagesOf(
  values: Values,
  options: readonly Option[] = Object.values(MESSAGES),
): LogSettings {
  const { level, format, file, json } = values.all(MESSAGES);
  return { level, format: json && options.includes(MESSAGES.json) ? 'json' : format, file };
}

/** As in {@link Settings}. */
export function outputLimitOf(values: Values): number | undefined {
  if (values.has(MESSAGES.noLastLines)) return 0;
  const limitBytes = values.of(MESSAGES.logOutputLimit);
  return values.has(MESSAGES.logOutput) ? limitBytes : undefined;
}

export function refuseOutput(values: Values): void {
  const [format, json] = [values.given(MESSAGES.format), values.given(MESSAGES.json)];
  if (json?.source === '--json' && format?.source === '--log-format' && values.of(MESSAGES.format) === 'text')
    values.refuse('--json and --log-format text contradict each other', 'leave one of them out');
  const without = values.given(MESSAGES.noLastLines);
  if (without !== undefined && values.has(MESSAGES.logOutput))
    values.refuse(`${without.source} and --log-output contradict each other`, 'leave one of them out');
  const given = values.given(MESSAGES.logOutputLimit);
  if (given === undefined || values.has(MESSAGES.logOutput)) return;
  values.refuse(
    `${given.source}: without --log-output, only the end of a failure is stored`,
    `add --log-output, or leave out ${given.source}`,
  );
}
