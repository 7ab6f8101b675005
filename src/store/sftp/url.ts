// `sftp://user@host:port/directory`: the form of the URL, and where it leads. Pure; loads nothing of ssh2.
import type { Mistake } from '../../model/errors.ts';
import { showPath } from '../../model/path.ts';
import type { GivenUrl, StoreKind } from '../contract/store.ts';

const FORM = 'sftp://user@host/directory';
const PARTS = /^sftp:\/\/([^/]*)(\/.*)?$/is;
/** The user, a host name or an address (RFC 3986, section 3.2), and the port. */
const AUTHORITY = /^(?:([^@]*)@)?(\[[0-9a-f:.]+\]|[^:@[\]]*)(?::(\d+))?$/i;
const SSH_PORT = 22;
/** Relative to the home directory of the user: `sftp://user@host/~/directory`. */
const HOME = '/~';

export const sftpKind: StoreKind = {
  form: FORM,
  parse: parseSftp,
  directoryOf: () => undefined,
  insteadOf: (scheme) => (scheme === 'scp' || scheme === 'ssh' ? FORM : undefined),
};

/** A directory of a server. */
export interface Location {
  readonly user: string;
  /** An IPv6 address has no brackets. */
  readonly host: string;
  readonly port: number;
  /** Absolute, or relative to the home directory. Without a slash at its end; `/` is empty, the home directory `.`. */
  readonly directory: string;
}

function parseSftp({ text, source, shown }: GivenUrl): string | Mistake {
  const hint = `${source} ${FORM}`;
  const [, authority = '', path = ''] = PARTS.exec(text) ?? [];
  const [, user = '', host = '', port] = AUTHORITY.exec(authority) ?? [];
  // Shows nothing of it: the password would end up in logs.
  if (authority.slice(0, Math.max(0, authority.lastIndexOf('@'))).includes(':')) {
    return {
      message: `${source}: capture takes no password in a URL, and none at all`,
      hint: `use a key or an agent: ${hint}`,
    };
  }
  if (host === '') return { message: `${shown}: names no host`, hint };
  if (/[^\x21-\x7e]/.test(host))
    return { message: `${shown}: '${showPath(host)}' is no name of a host`, hint };
  if (!/^[^\s\p{Cc}]+$/u.test(user)) return { message: `${shown}: names no user`, hint };
  const number = port === undefined ? SSH_PORT : Number(port);
  if (number < 1 || number > 65_535) return { message: `${shown}: ${port} is no port`, hint };
  const why = whyNoDirectory(path);
  if (why !== undefined)
    return { message: `${shown}: ${why}`, hint: `${hint}, or ${source} sftp://user@host/~/directory` };
  const where = number === SSH_PORT ? host.toLowerCase() : `${host.toLowerCase()}:${number}`;
  return `sftp://${user}@${where}${trimmed(path)}`;
}

function whyNoDirectory(path: string): string | undefined {
  if (trimmed(path) === '') return 'names no directory';
  if (/\p{Cc}/u.test(path)) return 'a control character in the path';
  if (
    trimmed(path)
      .slice(1)
      .split('/')
      .some((part) => part === '.' || part === '..' || part === '')
  )
    return "the path has an empty, '.' or '..' part";
  return undefined;
}

function trimmed(path: string): string {
  return path.replace(/\/+$/, '');
}

/** Where a normalised URL leads. */
export function locationOf(url: string): Location {
  const [, authority = '', path = ''] = PARTS.exec(url) ?? [];
  const [, user = '', host = '', port] = AUTHORITY.exec(authority) ?? [];
  const isHome = path === HOME || path.startsWith(`${HOME}/`);
  return {
    user,
    host: host.replaceAll(/[[\]]/g, ''),
    port: port === undefined ? SSH_PORT : Number(port),
    directory: isHome ? path.slice(HOME.length + 1) || '.' : path,
  };
}
