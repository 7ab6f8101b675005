// The keys of servers that the user trusts: files in the form of known_hosts (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT").
// A server whose key is not in them is never used. Pure.
import { createHash, createHmac } from 'node:crypto';

/** One line that names a key. */
export interface KnownHost {
  /** Patterns, or one hashed name. */
  readonly names: string;
  readonly isRevoked: boolean;
  /** `ssh-ed25519` */
  readonly type: string;
  /** In base64. */
  readonly key: string;
}

export interface Server {
  readonly host: string;
  readonly port: number;
}

/**
 * - `known`: it is the key of this server.
 * - `changed`: the server has another key of this type.
 * - `other-type`: the server has keys, but none of this type.
 * - `revoked`: somebody has marked the key as stolen.
 * - `unknown`: nothing is known of the server.
 */
export type Verdict = 'known' | 'changed' | 'other-type' | 'revoked' | 'unknown';

const SSH_PORT = 22;

/** Lines that cannot be read are left out, as ssh does it; so are certificate authorities, which ssh2 does not know. */
export function parseKnownHosts(text: string): readonly KnownHost[] {
  return text.split('\n').flatMap((line) => {
    const words = line.trim().split(/\s+/);
    if (words[0] === undefined || words[0] === '' || words[0].startsWith('#')) return [];
    const marker = words[0].startsWith('@') ? words.shift() : undefined;
    const [names, type, key] = words;
    if (names === undefined || type === undefined || key === undefined) return [];
    if (marker !== undefined && marker !== '@revoked') return [];
    return [{ names, isRevoked: marker === '@revoked', type, key }];
  });
}

/** What the lines say about this key of this server. */
export function verdictOn(lines: readonly KnownHost[], server: Server, key: Buffer): Verdict {
  const text = key.toString('base64');
  // Whoever stole a key could show it as that of any host.
  if (lines.some((line) => line.isRevoked && line.key === text)) return 'revoked';
  const known = keysOf(lines, server);
  if (known.some((line) => line.key === text)) return 'known';
  // A line without a port counts for all ports, but only if it has this key (ssh does the same).
  if (known.length === 0 && server.port !== SSH_PORT) {
    const ofHost = keysOf(lines, { ...server, port: SSH_PORT });
    return ofHost.some((line) => line.key === text) ? 'known' : 'unknown';
  }
  if (known.some(({ type }) => type === typeOf(key))) return 'changed';
  return known.length > 0 ? 'other-type' : 'unknown';
}

/** The types of keys that are known of a server: it must show one of these, if it has one. */
export function knownTypes(lines: readonly KnownHost[], server: Server): ReadonlySet<string> {
  const known = keysOf(lines, server);
  const all = known.length > 0 ? known : keysOf(lines, { ...server, port: SSH_PORT });
  return new Set(all.map(({ type }) => type));
}

/** As `ssh-keygen -l` shows it. */
export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

/** The name of its type begins each key (RFC 4253, section 6.6). */
export function typeOf(key: Buffer): string {
  return key.length < 4 ? '' : key.toString('latin1', 4, 4 + key.readUInt32BE(0));
}

function keysOf(lines: readonly KnownHost[], { host, port }: Server): readonly KnownHost[] {
  const name = port === SSH_PORT ? host.toLowerCase() : `[${host.toLowerCase()}]:${port}`;
  return lines.filter(({ names, isRevoked }) => !isRevoked && isNamed(names, name));
}

/** Whether a list of patterns names the host: one of them, and none with an exclamation mark. */
function isNamed(names: string, name: string): boolean {
  if (names.startsWith('|')) return isHashOf(names, name);
  const patterns = names.toLowerCase().split(',');
  const matching = patterns.filter((pattern) => isLike(pattern.replace(/^!/, ''), name));
  return matching.length > 0 && !matching.some((pattern) => pattern.startsWith('!'));
}

/** `|1|salt|hash`: the HMAC-SHA1 of the name (ssh_config(5), HashKnownHosts). */
function isHashOf(hashed: string, name: string): boolean {
  const [, version, salt = '', hash] = hashed.split('|');
  if (version !== '1') return false;
  return createHmac('sha1', Buffer.from(salt, 'base64')).update(name).digest('base64') === hash;
}

/** `*` and `?` are wildcards (ssh_config(5), PATTERNS). All other characters stand for themselves, also brackets. */
function isLike(pattern: string, name: string): boolean {
  const source = pattern.replaceAll(/[.*+?^${}()|[\]\\]/g, (char) => {
    if (char === '*') return '.*';
    return char === '?' ? '.' : `\\${char}`;
  });
  return new RegExp(`^${source}$`, 's').test(name);
}
