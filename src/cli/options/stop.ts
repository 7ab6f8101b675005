// The options for stops: how capture learns that it will be stopped, and what it then sends to the task.
import path from 'node:path';
import { type NoticeChoice, parseNotice } from '../../model/format/notice.ts';
import type { NoticeSettings } from '../../model/format/settings.ts';
import { canEndTask, JOB_SIGNALS } from '../../model/relay.ts';
import type { Reader } from './readers.ts';
import { CAPTURING, group, RUN } from './spec.ts';
import type { RunCaller, Values } from './values.ts';

/** The signals that can end a task. */
const SIGNALS: ReadonlySet<string> = new Set(JOB_SIGNALS.filter(canEndTask));
const SHORT_NAMES = [...SIGNALS].map((name) => name.slice('SIG'.length)).join(', ');

/** Accepts `USR1`, `SIGUSR1` and `usr1`. */
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

export const STOP = group('Notices:', {
  notice: {
    flags: '--notice <source>',
    kind: 'list',
    help: 'the source of notices of a stop: auto (default), ec2, gce, azure, file:<path>, after:<duration> or none',
    on: CAPTURING,
    read: parseNotice,
    default: 'auto',
  },
  noticeOn: {
    flags: '--notice-on <signal>',
    kind: 'list',
    help: 'a signal that is a notice, such as USR1',
    on: RUN,
    read: signal,
  },
  noticeSignal: {
    flags: '--notice-signal <what>',
    help: 'what the task gets at a notice: auto (TERM if it handles it), none or a signal',
    on: RUN,
    read: told,
    default: 'auto',
  },
});

export function stopOf(values: Values, { cwd }: RunCaller): NoticeSettings {
  const sources = values.of(STOP.notice).map((choice) => absolute(choice, cwd));
  const isOff = sources.some(({ kind }) => kind === 'none');
  return {
    sources: isOff ? [] : sources,
    signals: isOff ? [] : [...new Set(values.of(STOP.noticeOn))],
    tell: values.of(STOP.noticeSignal),
  };
}

function absolute(choice: NoticeChoice, cwd: string): NoticeChoice {
  return choice.kind === 'file' ? { kind: 'file', path: path.resolve(cwd, choice.path) } : choice;
}

/** `--notice none` contradicts every option for a notice. */
export function refuseNotices(values: Values): void {
  const notice = values.given(STOP.notice);
  if (notice === undefined || !notice.values.includes('none')) return;
  const other =
    notice.values.find((text) => text !== 'none') ??
    values.given(STOP.noticeOn)?.source ??
    values.given(STOP.noticeSignal)?.source;
  if (other === undefined) return;
  values.refuse(`${notice.source} none and ${other} contradict each other`, 'leave one of them out');
}
