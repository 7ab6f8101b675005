// The options that say what capture tells, and where.
import type { LogSettings, MetricsPlace } from '../../model/format/settings.ts';
import { choice, filePath, type Reader } from './readers.ts';
import { ALL, CAPTURING, group } from './spec.ts';
import type { Values } from './values.ts';

/** `9464`, `0.0.0.0:9464`, `[::1]:9464`; undefined for what is no address. */
function addressOf(text: string): Extract<MetricsPlace, { kind: 'listen' }> | undefined {
  const [, bracketed, plain, port] = /^(?:(?:\[([^\]/]+)\]|([^:/]+)):)?(\d{1,5})$/.exec(text) ?? [];
  return port === undefined
    ? undefined
    : { kind: 'listen', host: bracketed ?? plain ?? LOOPBACK, port: Number(port) };
}

/** Only this machine. */
const LOOPBACK = '127.0.0.1';
const MOST_PORTS = 65_535;

const portOrPath: Reader<string> = (text) => {
  const address = addressOf(text);
  const isPort = address === undefined || (address.port > 0 && address.port <= MOST_PORTS);
  if (!isPort) return { is: 'not a port, 1 to 65535', example: '9464' };
  return filePath(text);
};

export const MESSAGES = group('Messages:', {
  'dry-run': {
    flags: '--dry-run',
    kind: 'flag',
    help: 'print identity, matches and keys; start and store nothing',
    on: ALL,
  },
  'log-level': {
    flags: '--log-level <level>',
    kind: 'value',
    help: 'debug, info, warn, error or silent',
    on: ALL,
    read: choice('info', 'debug', 'warn', 'error', 'silent'),
    default: 'info',
  },
  'log-format': {
    flags: '--log-format <format>',
    kind: 'value',
    help: 'text or json',
    on: ALL,
    read: choice('text', 'json'),
    default: 'text',
  },
  'log-file': {
    flags: '--log-file <file>',
    kind: 'value',
    help: 'append messages to this file; only errors go to stderr as well',
    on: ALL,
    read: filePath,
  },
  metrics: {
    flags: '--metrics <port|path>',
    kind: 'value',
    help: 'live numbers for Prometheus, on a port or in a file',
    on: CAPTURING,
    read: portOrPath,
  },
});

export function messagesOf(values: Values): LogSettings {
  return {
    level: values.of(MESSAGES['log-level']),
    format: values.of(MESSAGES['log-format']),
    file: values.path(MESSAGES['log-file']),
  };
}

export function metricsOf(values: Values): MetricsPlace | undefined {
  const text = values.of(MESSAGES.metrics);
  if (text === undefined) return undefined;
  const file = values.path(MESSAGES.metrics);
  return addressOf(text) ?? (file === undefined ? undefined : { kind: 'file', path: file });
}
