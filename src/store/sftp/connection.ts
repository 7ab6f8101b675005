// The connection to one server: it opens a session when one is needed, and another when that is lost. A server whose key
// the user has not confirmed gets nothing: no name, no signature, no data.
import { once } from 'node:events';
import net from 'node:net';
import ssh2, { type Client, type SFTPWrapper } from 'ssh2';
import { errnoOf } from '../../model/errors.ts';
import { untilAborted } from '../../model/waiting.ts';
import { StoreError } from '../contract/store.ts';
import { fingerprintOf, type KnownHost, knownTypes, typeOf, type Verdict, verdictOn } from './known-hosts.ts';
import { HARD_LINK, POSIX_RENAME, Session } from './session.ts';
import { findKeys, readKnownHosts, type SignIn } from './sign-in.ts';
import type { Location } from './url.ts';

/** For name, connection, keys and session: an agent may ask its user. */
const OPEN_WITHIN_MS = 30_000;
/** The system asks an idle server whether it is still there, and after ten questions a second apart it is not. */
const ALIVE_AFTER_MS = 15_000;

export type Target = Pick<Location, 'user' | 'host' | 'port'>;

export interface SftpConnection {
  /** The session in use, or a new one. Throws a StoreError, or the signal's reason. */
  session(signal?: AbortSignal): Promise<Session>;
  /** What the server would be asked to accept. */
  readonly target: Target;
  close(): void;
}

/** Connects with the first request, not before. */
export function openConnection(target: Target): SftpConnection {
  let current: Promise<Session> | undefined;
  let isClosed = false;
  const open = (): Promise<Session> => {
    const opening = openSession(target).then((session) => {
      if (isClosed) session.end();
      return session;
    });
    opening.catch(() => {
      if (current === opening) current = undefined;
    });
    return opening;
  };
  return {
    target,
    session: async (signal) => {
      signal?.throwIfAborted();
      if (isClosed) throw new Error(`the connection to ${target.host} is closed`);
      const asked = current;
      if (asked !== undefined) {
        const session = await untilAborted(asked, signal);
        if (session.isOpen) return session;
        // Several operations notice the loss at once; one new session serves all of them.
        if (current === asked) current = undefined;
      }
      current ??= open();
      return untilAborted(current, signal);
    },
    close: () => {
      isClosed = true;
      current?.then((session) => session.end()).catch(() => undefined);
    },
  };
}

async function openSession(target: Target): Promise<Session> {
  const signIn = findKeys(target.user);
  const lines = readKnownHosts();
  if (signIn.methods.length === 0) throw noKey(target, signIn);
  const client = new ssh2.Client();
  const socket = net.connect({ host: target.host, port: target.port });
  socket.setKeepAlive(true, ALIVE_AFTER_MS);
  socket.setNoDelay(true);
  const met: Meeting = { isConnected: false, isKnown: false, isOther: false, refusal: undefined };
  socket.once('connect', () => (met.isConnected = true));
  // Errors after the first are of no use, but must have a listener.
  client.on('error', () => undefined);
  try {
    await ready(client, socket, { target, signIn, lines, met });
    const sftp = await sessionOf(client, socket, target);
    const session = new Session(client, sftp, socket);
    if (!session.isOpen) throw closedError();
    const lacking = [HARD_LINK, POSIX_RENAME].filter((extension) => !session.has(extension));
    if (lacking.length === 0) return session;
    session.end();
    throw new StoreError('refused', `${shown(target)}: the server lacks ${lacking.join(' and ')}`, {
      hint: 'only a server with these can keep what capture promises: that of OpenSSH has them',
    });
  } catch (error) {
    client.destroy();
    socket.destroy();
    throw error instanceof StoreError ? error : (met.refusal ?? whyNot(error, target, { signIn, met }));
  }
}

interface Meeting {
  isConnected: boolean;
  /** The server has shown its key. */
  isKnown: boolean;
  /** It has said something else than a server with SSH. */
  isOther: boolean;
  /** Why we did not accept the server. */
  refusal: StoreError | undefined;
}

interface Meets {
  readonly target: Target;
  readonly signIn: SignIn;
  readonly lines: readonly KnownHost[];
  readonly met: Meeting;
}

function ready(client: Client, socket: net.Socket, { target, signIn, lines, met }: Meets): Promise<unknown> {
  return new Promise((resolve, reject) => {
    client.once('ready', () => resolve(undefined));
    // An agent that does not answer is no reason to give up: other keys follow.
    client.on('error', (error) => (error.level === 'agent' ? undefined : reject(error)));
    client.once('close', () => reject(closedError()));
    const left = [...signIn.methods];
    client.connect({
      sock: socket,
      username: target.user,
      readyTimeout: OPEN_WITHIN_MS,
      keepaliveInterval: 0,
      algorithms: { serverHostKey: hostKeyAlgorithms(knownTypes(lines, target)) },
      hostVerifier: (key: Buffer) => {
        met.isKnown = true;
        met.refusal = refusalOf(verdictOn(lines, target, key), key, target);
        return met.refusal === undefined;
      },
      // ssh2 takes false for "no more", which its types do not say.
      authHandler: (_left, _partial, next) => next(left.shift() ?? (false as never)),
    });
    socket.once('data', (bytes) => (met.isOther = !SSH_BEGINS.test(bytes.toString('latin1'))));
  });
}

/** RFC 4253, section 4.2. One that has too many users at once may say so instead (sshd_config(5), MaxStartups). */
const SSH_BEGINS = /(?:^|\n)SSH-|MaxStartups/;

function closedError(): Error {
  return Object.assign(new Error('the server closed the connection'), { level: 'closed' });
}

async function sessionOf(client: Client, socket: net.Socket, target: Target): Promise<SFTPWrapper> {
  const opened = new Promise<SFTPWrapper>((resolve, reject) => {
    client.sftp((error, sftp) => (error === undefined ? resolve(sftp) : reject(error)));
  });
  opened.catch(() => undefined);
  const closed = once(client, 'close').then(() => Promise.reject(closedError()));
  closed.catch(() => undefined);
  try {
    return await Promise.race([opened, closed]);
  } catch (error) {
    // ssh2 says this also if the connection has broken.
    const says = error instanceof Error ? error.message : '';
    if (socket.destroyed || !/subsystem|exit code/i.test(says)) throw error;
    throw new StoreError('refused', `${shown(target)}: the server has no SFTP, or not for this user`, {
      hint: `try it: sftp ${target.user}@${target.host}`,
      cause: error,
    });
  }
}

/** SHA-1 is left out, as ssh leaves it out. */
const ALGORITHMS = {
  'ssh-ed25519': ['ssh-ed25519'],
  'ecdsa-sha2-nistp256': ['ecdsa-sha2-nistp256'],
  'ecdsa-sha2-nistp384': ['ecdsa-sha2-nistp384'],
  'ecdsa-sha2-nistp521': ['ecdsa-sha2-nistp521'],
  'ssh-rsa': ['rsa-sha2-512', 'rsa-sha2-256'],
} as const;

/** A server shows the key of the first type that we name: one that we know. */
function hostKeyAlgorithms(known: ReadonlySet<string>) {
  const types = Object.entries(ALGORITHMS);
  return [
    ...types.filter(([type]) => known.has(type)),
    ...types.filter(([type]) => !known.has(type)),
  ].flatMap(([, names]) => [...names]);
}

/** `user@host`, with the port if it is not that of ssh. */
function shown({ user, host, port }: Target): string {
  return `sftp://${user}@${host.includes(':') ? `[${host}]` : host}${port === 22 ? '' : `:${port}`}`;
}

function refusalOf(verdict: Verdict, key: Buffer, target: Target): StoreError | undefined {
  if (verdict === 'known') return undefined;
  const { host, port } = target;
  const print = `${typeOf(key)} ${fingerprintOf(key)}`;
  const scan = `ssh-keyscan ${port === 22 ? '' : `-p ${port} `}${host} >> ~/.ssh/known_hosts`;
  const name = port === 22 ? host : `[${host}]:${port}`;
  const ask = `ask whoever runs the server whether its key is ${print}`;
  const refused = (why: string, hint: string): StoreError =>
    new StoreError('refused', `${shown(target)}: ${why}`, { hint });
  switch (verdict) {
    case 'unknown':
      return refused(`the host is unknown: no known_hosts has its key, ${print}`, `${ask}; then ${scan}`);
    case 'other-type':
      return refused(
        `known_hosts has other keys of the host, but none of this type: ${print}`,
        `${ask}; then ${scan}`,
      );
    case 'changed':
      return refused(
        `the host has another key than known_hosts says: ${print}. Somebody may listen in its place`,
        `${ask}; then ssh-keygen -R '${name}' and ${scan}`,
      );
    case 'revoked':
      return refused(
        `the key of the host is revoked in known_hosts: ${print}`,
        'do not use this server, and ask whoever runs it for its new key',
      );
  }
}

function noKey(target: Target, { unused }: SignIn): StoreError {
  return new StoreError('denied', `${shown(target)}: there is no key to sign in with`, {
    hint: hintOf(unused) ?? 'make a key (ssh-keygen), and give the server its public part (ssh-copy-id)',
  });
}

function hintOf(unused: SignIn['unused']): string | undefined {
  const [one] = unused;
  if (one === undefined) return undefined;
  switch (one.why) {
    case 'passphrase':
      return `${one.file} has a passphrase: add it to an agent (eval "$(ssh-agent)"; ssh-add ${one.file})`;
    case 'readable by others':
      return `others can read ${one.file}, so it is not used: chmod 600 ${one.file}`;
    case 'unreadable':
      return `${one.file} cannot be read as a private key: is it one of OpenSSH?`;
  }
}

interface Circumstances {
  readonly signIn: SignIn;
  readonly met: Meeting;
}

/** Why there is no session, in our words. */
function whyNot(error: unknown, target: Target, { signIn, met }: Circumstances): StoreError {
  const text = error instanceof Error ? error.message : String(error);
  const where = shown(target);
  if (levelOf(error) === 'client-authentication' || /too many authentication failures/i.test(text)) {
    const keys = signIn.methods.length - (signIn.hasAgent ? 1 : 0);
    const tried = [
      ...(keys > 0 ? [`${keys} of ~/.ssh`] : []),
      ...(signIn.hasAgent ? ['those of the agent'] : []),
    ];
    return new StoreError('denied', `${where}: the server accepts none of these keys: ${tried.join(', ')}`, {
      hint: hintOf(signIn.unused) ?? `ssh-copy-id ${target.user}@${target.host}, or check the user's name`,
      cause: error,
    });
  }
  if (!met.isConnected) {
    return new StoreError('transient', `${where}: cannot reach the server (${errnoOf(error) ?? text})`, {
      hint: "check the host's name, the port and the network",
      cause: error,
    });
  }
  if (/no matching/i.test(text)) {
    return new StoreError('refused', `${where}: the server offers no method that is still safe (${text})`, {
      hint: 'the server needs a newer version of OpenSSH',
      cause: error,
    });
  }
  if (met.isOther) {
    return new StoreError('refused', `${where}: the server does not speak SSH`, {
      hint: 'check the port: sftp://user@host:port/directory',
      cause: error,
    });
  }
  if (met.isKnown)
    return new StoreError('transient', `${where}: the connection broke (${text})`, { cause: error });
  // A server drops some of those who come at once (sshd_config(5), MaxStartups): the others shall wait longer.
  return new StoreError('busy', `${where}: the server broke off the start of the session (${text})`, {
    hint: 'it may have too many users at once (MaxStartups in sshd_config), or look in its log',
    cause: error,
  });
}

function levelOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? Reflect.get(error, 'level') : undefined;
}
