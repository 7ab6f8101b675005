// Which keys of servers are trusted: the forms of known_hosts (sshd(8)).
import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import {
  fingerprintOf,
  knownTypes,
  parseKnownHosts,
  typeOf,
  verdictOn,
} from '../../../src/store/sftp/known-hosts.ts';

/** A key in the form of RFC 4253, section 6.6. */
function keyOf(type: string, fill: number): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(type.length);
  return Buffer.concat([length, Buffer.from(type), Buffer.alloc(36, fill)]);
}

const KEY = keyOf('ssh-ed25519', 1);
const OTHER = keyOf('ssh-ed25519', 2);
const RSA = keyOf('ssh-rsa', 3);
const lineOf = (names: string, key: Buffer): string => `${names} ${typeOf(key)} ${key.toString('base64')}`;

function hashed(name: string): string {
  const salt = Buffer.alloc(20, 7);
  const hash = createHmac('sha1', salt).update(name).digest('base64');
  return `|1|${salt.toString('base64')}|${hash}`;
}

const SERVER = { host: 'files.lab.org', port: 22 };
const on = (text: string, server = SERVER, key = KEY): string =>
  verdictOn(parseKnownHosts(text), server, key);

describe('the key of a server', () => {
  it.each([
    ['by its name', lineOf('files.lab.org', KEY)],
    ['by one of several names', lineOf('10.0.0.9,files.lab.org', KEY)],
    ['by a pattern', lineOf('*.lab.org', KEY)],
    ['by a pattern of single characters', lineOf('file?.lab.org', KEY)],
    ['by a hashed name', lineOf(hashed('files.lab.org'), KEY)],
    ['whatever the case of its name', lineOf('Files.Lab.ORG', KEY)],
    ['with a comment, and spaces', `  ${lineOf('files.lab.org', KEY)} of the lab \r`],
    ['beside other keys', `${lineOf('files.lab.org', OTHER)}\n${lineOf('files.lab.org', KEY)}`],
    ['beside lines that cannot be read', `nonsense\n# a comment\n\n${lineOf('files.lab.org', KEY)}`],
  ])('is known %s', (_, text) => {
    expect(on(text)).toBe('known');
  });

  it.each([
    ['nothing', ''],
    ['another host', lineOf('other.lab.org', KEY)],
    ['a pattern that excludes it', lineOf('*.lab.org,!files.lab.org', KEY)],
    ['a comment', `# ${lineOf('files.lab.org', KEY)}`],
    ['a certificate authority', `@cert-authority ${lineOf('*', KEY)}`],
    ['another hashed name', lineOf(hashed('other.lab.org'), KEY)],
    ['a hash of another version', lineOf(hashed('files.lab.org').replace('|1|', '|2|'), KEY)],
    ['the name with another port', lineOf('[files.lab.org]:2222', KEY)],
    ['a dot that is no wildcard', lineOf('filesxlab.org', KEY)],
  ])('is unknown with %s', (_, text) => {
    expect(on(text)).toBe('unknown');
  });

  it('is changed if another key of its type stands there, and of another type if only those do', () => {
    expect(on(lineOf('files.lab.org', OTHER))).toBe('changed');
    expect(on(lineOf('files.lab.org', RSA))).toBe('other-type');
  });

  it('is revoked whatever else stands there, and under whatever name', () => {
    expect(on(`${lineOf('files.lab.org', KEY)}\n@revoked ${lineOf('*', KEY)}`)).toBe('revoked');
    expect(on(`@revoked ${lineOf('other.lab.org', KEY)}\n${lineOf('files.lab.org', KEY)}`)).toBe('revoked');
    expect(on(`@revoked ${lineOf('*', OTHER)}\n${lineOf('files.lab.org', KEY)}`)).toBe('known');
  });

  it('belongs to its port; a line without a port counts only if it has this key', () => {
    const server = { host: 'files.lab.org', port: 2222 };
    expect(on(lineOf('[files.lab.org]:2222', KEY), server)).toBe('known');
    expect(on(lineOf(hashed('[files.lab.org]:2222'), KEY), server)).toBe('known');
    expect(on(lineOf('[files.lab.org]:2222', OTHER), server)).toBe('changed');
    expect(on(lineOf('files.lab.org', KEY), server)).toBe('known');
    expect(on(lineOf('files.lab.org', OTHER), server)).toBe('unknown');
    expect(on(`${lineOf('[files.lab.org]:2222', OTHER)}\n${lineOf('files.lab.org', KEY)}`, server)).toBe(
      'changed',
    );
  });

  it('is of a type that is known, if the server has one', () => {
    const lines = parseKnownHosts(
      `${lineOf('files.lab.org', RSA)}\n@revoked ${lineOf('files.lab.org', KEY)}`,
    );
    expect([...knownTypes(lines, SERVER)]).toEqual(['ssh-rsa']);
    expect([...knownTypes(lines, { ...SERVER, port: 2222 })]).toEqual(['ssh-rsa']);
  });

  it('has the fingerprint that ssh-keygen shows', () => {
    const key = Buffer.from('AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl', 'base64');
    expect(typeOf(key)).toBe('ssh-ed25519');
    // That of github.com, as GitHub publishes it.
    expect(fingerprintOf(key)).toBe('SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU');
  });
});
