// Which keys of a user are tried, and why the others are not.
import { generateKeyPairSync } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findKeys, readKnownHosts } from '../../../src/store/sftp/sign-in.ts';
import { testDir, type TestDir } from '../../support/work-dir.ts';

let dir: TestDir;
const at = (name: string): string => path.join(dir.path, '.ssh', name);
beforeEach(() => {
  dir = testDir();
  fs.mkdirSync(at(''));
});
afterEach(() => dir.remove());

/** `passphrase`: the key is kept under it. */
function makeKey(name: string, passphrase?: string): void {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const form = { type: 'pkcs1', format: 'pem' } as const;
  const text = privateKey.export(
    passphrase === undefined ? form : { ...form, cipher: 'aes-128-cbc', passphrase },
  );
  fs.writeFileSync(at(name), text, { mode: 0o600 });
}

describe('the keys of a user', () => {
  it('are those in ~/.ssh with a usual name, in the order of ssh, and then those of an agent', () => {
    for (const name of ['id_work', 'id_rsa', 'id_ecdsa', 'other']) makeKey(name);
    fs.writeFileSync(at('id_rsa.pub'), 'ssh-rsa AAAA');
    const agent = at('agent');
    fs.writeFileSync(agent, '');
    const { methods, hasAgent, unused } = findKeys('ada', { HOME: dir.path, SSH_AUTH_SOCK: agent });
    const keys = methods.map((method) =>
      'key' in method && Buffer.isBuffer(method.key) ? method.key.toString() : method.type,
    );
    expect(keys).toEqual([
      ...['id_ecdsa', 'id_rsa', 'id_work'].map((name) => fs.readFileSync(at(name), 'utf8')),
      'agent',
    ]);
    expect(hasAgent).toBe(true);
    expect(unused).toEqual([]);
  });

  it('are not used with a passphrase, if others can read them, or if they are none', () => {
    makeKey('id_ecdsa', 'secret words');
    makeKey('id_rsa');
    fs.chmodSync(at('id_rsa'), 0o640);
    fs.writeFileSync(at('id_work'), 'nothing of the kind', { mode: 0o600 });
    expect(findKeys('ada', { HOME: dir.path })).toEqual({
      methods: [],
      hasAgent: false,
      unused: [
        { file: at('id_ecdsa'), why: 'passphrase' },
        { file: at('id_rsa'), why: 'readable by others' },
        { file: at('id_work'), why: 'unreadable' },
      ],
    });
  });

  it('are none without a home directory, and an agent that is gone is none', () => {
    expect(findKeys('ada', {}).methods).toEqual([]);
    expect(findKeys('ada', { HOME: '/nowhere', SSH_AUTH_SOCK: '/nowhere/agent' }).methods).toEqual([]);
  });
});

describe('known_hosts', () => {
  it('counts as empty if it is missing, or no file', () => {
    const ofUser = (): number =>
      readKnownHosts({ HOME: dir.path }).filter(({ names }) => names === 'files').length;
    expect(ofUser()).toBe(0);
    fs.writeFileSync(at('known_hosts'), 'files ssh-ed25519 AAAA\n');
    expect(ofUser()).toBe(1);
    fs.rmSync(at('known_hosts'));
    fs.mkdirSync(at('known_hosts'));
    expect(ofUser()).toBe(0);
  });
});
