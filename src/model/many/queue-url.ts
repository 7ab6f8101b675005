// The address of a queue: `--queue redis[s]://[user[:password]@]host[:port]/name`, or a Unix socket. Pure.
import { isMistake, type Mistake } from '../errors.ts';
import { isSubmissionName } from './submission.ts';

export interface QueuePlace {
  /** All its keys in Redis begin with `capture:<name>`: several queues share one server. */
  readonly name: string;
  readonly at:
    | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
    | { readonly kind: 'socket'; readonly path: string };
  readonly tls: boolean;
  /** A PEM file with the certificates to trust. */
  readonly caFile: string | undefined;
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
}

const DEFAULT_PORT = 6379;
const DEFAULT_NAME = 'default';
const EXAMPLE = 'redis://host:6379/name';

/**
 * `source`: where the text comes from: `--queue`, or `CAPTURE_QUEUE`. No message repeats the text, because it may
 * contain a password.
 */
export function parseQueueUrl(text: string, source: string): QueuePlace | Mistake {
  const refuse = (is: string, example = EXAMPLE): Mistake => ({
    message: `${source} ${is}`,
    hint: source.startsWith('--') ? `${source} ${example}` : `${source}=${example}`,
  });
  if (!URL.canParse(text)) return refuse('is no URL of a queue');
  const url = new URL(text);
  const isSocket = url.protocol === 'redis+unix:';
  if (!isSocket && url.protocol !== 'redis:' && url.protocol !== 'rediss:')
    return refuse('begins with none of redis://, rediss:// and redis+unix://');
  const strange = [...url.searchParams.keys()].find((key) => !PARAMETERS.has(key));
  if (strange !== undefined)
    return refuse(
      `has an unknown '${strange}': there are db and ca, and name for a socket`,
      `${EXAMPLE}?db=1`,
    );
  const database = url.searchParams.get('db') ?? '0';
  if (!/^\d{1,5}$/.test(database)) return refuse('has a db that is no number', `${EXAMPLE}?db=1`);
  const name = (isSocket ? url.searchParams.get('name') : decoded(url.pathname.slice(1))) ?? '';
  if (name !== '' && !isSubmissionName(name))
    return refuse('has a name that is not made of letters, digits, and - . _ between them');
  const at = isSocket ? socketOf(url) : hostOf(url);
  if (isMistake(at)) return refuse(at.message, at.hint);
  return {
    name: name === '' ? DEFAULT_NAME : name,
    at,
    tls: url.protocol === 'rediss:',
    caFile: url.searchParams.get('ca') ?? undefined,
    user: url.username === '' ? undefined : decoded(url.username),
    password: url.password === '' ? undefined : decoded(url.password),
    database: Number(database),
  };
}

const PARAMETERS: ReadonlySet<string> = new Set(['db', 'ca', 'name']);

function hostOf({ hostname, port }: URL): QueuePlace['at'] | Mistake {
  if (hostname === '') return { message: 'names no host', hint: EXAMPLE };
  // Brackets belong to the URL only (RFC 3986, 3.2.2).
  const host = hostname.replace(/^\[|\]$/g, '');
  return { kind: 'tcp', host, port: port === '' ? DEFAULT_PORT : Number(port) };
}

function socketOf({ hostname, pathname }: URL): QueuePlace['at'] | Mistake {
  const path = decoded(pathname);
  if (hostname !== '' || path.length < 2)
    return { message: 'names no path of a socket', hint: 'redis+unix:///run/redis/redis.sock?name=lab' };
  return { kind: 'socket', path };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** For messages: without user and password. */
export function showQueue({ name, at, tls, database }: QueuePlace): string {
  const db = database === 0 ? [] : [`db=${database}`];
  if (at.kind === 'socket') return `redis+unix://${at.path}?${[`name=${name}`, ...db].join('&')}`;
  const host = at.host.includes(':') ? `[${at.host}]` : at.host;
  return `${tls ? 'rediss' : 'redis'}://${host}:${at.port}/${name}${db.length === 0 ? '' : `?${db.join('')}`}`;
}
