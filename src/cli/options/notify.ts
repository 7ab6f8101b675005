// `--notify`, of a run and of `capture wait`.
import type { NotifyTarget } from '../../model/format/settings.ts';
import type { Reader } from './readers.ts';

/** What begins with http:// or https:// is asked by a POST; all else is a command. */
const target: Reader<NotifyTarget> = (text) => {
  const example = 'https://example.org/hook';
  if (text.trim() === '' || text.includes('\0')) return { is: 'neither a URL nor a command', example };
  if (!/^https?:/i.test(text)) return { value: { kind: 'command', command: text } };
  const { username, password } = URL.canParse(text) ? new URL(text) : { username: '?', password: '' };
  if (username + password !== '')
    return { is: 'no URL that can be asked (user and password do not belong in it)', example };
  return { value: { kind: 'url', url: text } };
};

/** The help is the command's own. */
export const NOTIFY_OPTION = { flags: '--notify <url|command>', kind: 'value', read: target } as const;
