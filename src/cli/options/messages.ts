// The options that say what capture tells, and where.
import type { LogSettings } from '../../model/format/settings.ts';
import { choice, filePath } from './readers.ts';
import { ALL, group } from './spec.ts';
import type { Values } from './values.ts';

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
});

export function messagesOf(values: Values): LogSettings {
  return {
    level: values.of(MESSAGES['log-level']),
    format: values.of(MESSAGES['log-format']),
    file: values.path(MESSAGES['log-file']),
  };
}
