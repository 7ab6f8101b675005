// The options that say how capture hears that it will be stopped, and what the task is told then.
import path from 'node:path';
import { parseNotice, type NoticeChoice } from '../model/format/notice.ts';
import type { NoticeSettings } from '../model/format/settings.ts';
import type { Mistake } from '../model/mistake.ts';
import { canEndTask, JOB_SIGNALS } from '../model/relay.ts';
import { CAPTURING, list, RUN, STOP, table, value, type GivenOf } from './option-spec.ts';
import type { Reader } from './readers.ts';
import type { Values } from './values.ts';

export const NOTICE_OPTIONS = table({
  notice: list(
    STOP,
    '--notice <source>',
    'who says that we will be stopped: auto (default), ec2, gce, azure, file:<path>, after:<duration> or none',
    CAPTURING,
  ),
  'notice-on': list(STOP, '--notice-on <signal>', 'a signal that is a notice, such as USR1', RUN),
  'notice-signal': value(
    STOP,
    '--notice-signal <what>',
    'what the task gets at a notice: auto (TERM if it handles it), none or a signal',
    'auto',
    RUN,
  ),
});

type NoticeOption = keyof typeof NOTICE_OPTIONS;

/** Whoever sends one of these wants something to end. */
const SIGNALS: ReadonlySet<string> = new Set(JOB_SIGNALS.filter(canEndTask));
const SHORT_NAMES = [...SIGNALS].map((name) => name.slice('SIG'.length)).join(', ');

/** `USR1`, `SIGUSR1`, `usr1`. */
const signal: Reader<string> = (text) => {
  const name = text.toUpperCase().replace(/^(SIG)?/, 'SIG');
  return SIGNALS.has(name)
    ? { value: name }
    : { is: `not one of the signals ${SHORT_NAMES}`, example: 'USR1' };
};

const told: Reader<string> = (text) => {
  if (text === 'auto' || text === 'none') return { value: text };
  const read = signal(text);
  return 'value' in read ? read : { is: 'neither auto nor none nor a signal such as TERM', example: 'auto' };
};

export function noticesOf(values: Values<NoticeOption>, cwd: string): NoticeSettings {
  const given = values.each('notice', parseNotice).map((choice) => absolute(choice, cwd));
  const isOff = given.some(({ kind }) => kind === 'none');
  return {
    sources: isOff ? [] : given.length === 0 ? [{ kind: 'auto' }] : given,
    signals: isOff ? [] : [...new Set(values.each('notice-on', signal))],
    tell: values.one('notice-signal', told, 'auto'),
  };
}

function absolute(choice: NoticeChoice, cwd: string): NoticeChoice {
  return choice.kind === 'file' ? { kind: 'file', path: path.resolve(cwd, choice.path) } : choice;
}

/** `--notice none` turns everything off that could be a notice. */
export function noticeContradictions(given: Pick<GivenOf<NoticeOption>, 'get'>): readonly Mistake[] {
  const notice = given.get('notice');
  if (notice === undefined || !notice.values.includes('none')) return [];
  const other =
    notice.values.find((text) => text !== 'none') ??
    given.get('notice-on')?.source ??
    given.get('notice-signal')?.source;
  if (other === undefined) return [];
  return [
    {
      message: `${notice.source} none and ${other} contradict each other`,
      hint: 'leave one of them out',
    },
  ];
}
