// What proves to a server who we are: keys in ~/.ssh, and the keys of an agent. It asks for no passphrase and no password,
// and shows nothing of a key.
import fs from 'node:fs';
import path from 'node:path';
import ssh2, { type AnyAuthMethod } from 'ssh2';
import { encodePath } from '../../model/path.ts';
import { readNamedFile, readNamedText } from '../../native/named-file.ts';
import { type KnownHost, parseKnownHosts } from './known-hosts.ts';

/** The largest key has 16 KiB. */
const MOST_KEY_BYTES = 2 ** 18;
/** Of known_hosts: some 100,000 lines. */
const MOST_HOSTS_BYTES = 64 * 2 ** 20;
const SYSTEM_HOSTS = '/etc/ssh/ssh_known_hosts';
/** In the order of ssh (ssh_config(5), IdentityFile); others follow by name. */
const USUAL_KEYS = ['id_ed25519', 'id_ecdsa', 'id_rsa'];
const OF_OTHERS = 0o077;

export interface SignIn {
  /** In the order in which they are tried. */
  readonly methods: readonly AnyAuthMethod[];
  readonly hasAgent: boolean;
  /** Keys that are there, and why each is not used. */
  readonly unused: readonly { readonly file: string; readonly why: UnusedKey }[];
}

export type UnusedKey = 'passphrase' | 'readable by others' | 'unreadable';

/** Finds the keys of this process's user. Reads files, and asks no agent yet. */
export function findKeys(user: string, env = process.env): SignIn {
  const methods: AnyAuthMethod[] = [];
  const unused: { file: string; why: UnusedKey }[] = [];
  for (const file of keyFiles(env)) {
    const key = readKey(file);
    if (typeof key === 'string') unused.push({ file, why: key });
    else methods.push({ type: 'publickey', username: user, key: key.text });
  }
  const agent = env['SSH_AUTH_SOCK'] ?? '';
  const hasAgent = agent !== '' && fs.existsSync(agent);
  if (hasAgent) methods.push({ type: 'agent', username: user, agent });
  return { methods, hasAgent, unused };
}

function keyFiles(env: NodeJS.ProcessEnv): readonly string[] {
  const dir = sshDirectory(env);
  if (dir === undefined) return [];
  const rank = (name: string): number =>
    USUAL_KEYS.includes(name) ? USUAL_KEYS.indexOf(name) : USUAL_KEYS.length;
  try {
    return fs
      .readdirSync(encodePath(dir))
      .map(String)
      .filter((name) => /^id_[\w-]+$/.test(name))
      .toSorted((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
      .map((name) => path.join(dir, name));
  } catch {
    return [];
  }
}

function sshDirectory(env: NodeJS.ProcessEnv): string | undefined {
  const home = env['HOME'] ?? '';
  return home === '' ? undefined : path.join(home, '.ssh');
}

function readKey(file: string): { readonly text: Buffer } | UnusedKey {
  try {
    // ssh does not use such a key, either.
    if ((fs.statSync(encodePath(file)).mode & OF_OTHERS) !== 0) return 'readable by others';
    const text = readNamedFile(file, MOST_KEY_BYTES);
    const key = ssh2.utils.parseKey(text);
    if (!(key instanceof Error)) return { text };
    return /passphrase/i.test(key.message) ? 'passphrase' : 'unreadable';
  } catch {
    return 'unreadable';
  }
}

/** What the user and the machine know about servers. A file that cannot be read counts as empty: its servers are unknown. */
export function readKnownHosts(env = process.env): readonly KnownHost[] {
  const dir = sshDirectory(env);
  return [...(dir === undefined ? [] : [path.join(dir, 'known_hosts')]), SYSTEM_HOSTS].flatMap((file) => {
    try {
      return parseKnownHosts(readNamedText(file, MOST_HOSTS_BYTES));
    } catch {
      return [];
    }
  });
}
