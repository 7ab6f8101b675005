import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ABSENT, type OnTry, type Store } from '../../../src/store/contract/store.ts';
import { fileFailure } from '../../../src/store/file/file.ts';
import { openStore } from '../../../src/store/open.ts';
import { kindOf, listOf, newMeta, storeContract, textOf } from '../contract.ts';

const PARENT = fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir();

function openAt(dir: string, onTry?: OnTry): Promise<Store> {
  return openStore({ url: `file://${dir}`, flags: [], unfenced: false }, { budgetMs: 0, onTry });
}

storeContract('the file store', async (onTry) => {
  const dir = fs.mkdtempSync(join(PARENT, 'file-store-'));
  return {
    store: await openAt(`${dir}/made/by/put`, onTry),
    cleanup: async () => fs.rmSync(dir, { recursive: true }),
  };
});

describe('the file store', () => {
  let dir: string;
  let store: Store;
  beforeEach(async () => {
    dir = fs.mkdtempSync(join(PARENT, 'file-store-'));
    store = await openAt(dir);
  });
  afterEach(async () => {
    await store.close();
    fs.rmSync(dir, { recursive: true });
  });
  const put = (key: string, text: string): Promise<string> =>
    kindOf(store.put(key, Buffer.from(text), { meta: newMeta() }));
  const tmpFiles = (): string[] => fs.readdirSync(`${dir}/.capture-store/tmp`);
  const metaFiles = (): string[] =>
    fs
      .readdirSync(`${dir}/.capture-store/meta`, { recursive: true, encoding: 'utf8' })
      .filter((name) => name.includes('.'));

  it('keeps an object as a plain file under its key', async () => {
    await put('a/r.dat.3', 'bytes');
    expect(fs.readFileSync(`${dir}/a/r.dat.3`, 'utf8')).toBe('bytes');
    expect(tmpFiles()).toEqual([]);
  });

  it.each([
    '../out',
    'a/../../out',
    '/etc/x',
    'a//b',
    '.',
    '',
    'a/./b',
    'nul\0',
    '.capture-store/tmp/x',
    '.capture-store',
  ])('refuses the key %j', async (key) => {
    await expect(put(key, 'x')).rejects.toMatchObject({ kind: 'refused' });
    await expect(store.get(key)).rejects.toMatchObject({ kind: 'refused' });
    await expect(store.delete([key])).rejects.toMatchObject({ kind: 'refused' });
  });

  it('shows nothing of its own in a listing', async () => {
    await put('r.dat', 'x');
    expect(await listOf(store, '')).toEqual(['r.dat']);
    expect(await listOf(store, '.')).toEqual([]);
  });

  it('lists the inputs that people put there, also as links', async () => {
    fs.mkdirSync(`${dir}/in`);
    fs.writeFileSync(`${dir}/in/a.inp`, 'staged');
    fs.symlinkSync('a.inp', `${dir}/in/b.inp`);
    fs.symlinkSync('nowhere', `${dir}/in/dangling`);
    expect(await listOf(store, 'in/')).toEqual(['in/a.inp', 'in/b.inp']);
    expect(await textOf((await store.get('in/b.inp'))?.body)).toBe('staged');
    expect(await store.head('in/b.inp')).toEqual({
      key: 'in/b.inp',
      tag: expect.any(String),
      sizeBytes: 6,
      meta: {},
      modifiedMs: expect.any(Number),
      permissions: 0o644,
    });
  });

  it('may itself be named by a link', async () => {
    fs.symlinkSync(dir, `${dir}.link`);
    const linked = await openAt(`${dir}.link`);
    await linked.put('a/r.dat', Buffer.from('bytes'), { meta: newMeta() });
    expect(await listOf(linked, '')).toEqual(['a/r.dat']);
    expect(await textOf((await linked.get('a/r.dat'))?.body)).toBe('bytes');
    await linked.delete(['a/r.dat']);
    expect(fs.readdirSync(`${dir}/a`)).toEqual([]);
    await linked.close();
    fs.rmSync(`${dir}.link`);
  });

  it('has no metadata for an object that was overwritten by hand', async () => {
    await put('r.dat', 'ours');
    fs.writeFileSync(`${dir}/r.dat`, 'by hand');
    expect(await store.head('r.dat')).toEqual({
      key: 'r.dat',
      tag: expect.any(String),
      sizeBytes: 7,
      meta: {},
      modifiedMs: expect.any(Number),
      permissions: 0o600,
    });
  });

  it('keeps one metadata file for each object', async () => {
    for (let round = 0; round < 5; round += 1) await put('r.dat', `round ${round}`);
    await store.put('r.dat', Buffer.from('refused'), { meta: newMeta(), precondition: ABSENT });
    expect(metaFiles()).toHaveLength(1);
    await store.delete(['r.dat']);
    expect(metaFiles()).toEqual([]);
  });

  it('matches bytes and metadata whenever the writer is killed', async () => {
    const writer = await bundledWriter(dir);
    for (let round = 0; round < 12; round += 1) {
      await killDuringPuts(writer, dir, round);
      const got = await store.get('r.dat');
      const letters = new Set(await textOf(got?.body));
      expect([...letters]).toEqual([got?.meta['letter']]);
    }
  });

  it('reads the object that it opened, although it is replaced meanwhile', async () => {
    await put('r.dat', 'first');
    const got = await store.get('r.dat');
    await put('r.dat', 'second');
    expect(await textOf(got?.body)).toBe('first');
  });

  it('does not call an object whole that was written in place while it was read', async () => {
    const write = (letter: string): void =>
      fs.writeFileSync(join(dir, 'in.dat'), Buffer.alloc(3 * 2 ** 20, letter));
    write('A');
    const got = await store.get('in.dat');
    const read = async (): Promise<void> => {
      for await (const _ of got?.body ?? []) write('B');
    };
    await expect(read()).rejects.toMatchObject({ kind: 'transient' });
  });

  it('reports a directory that may not be written, and what to check', async () => {
    // No user, not even root, may make directories in sysfs.
    const denied = await openAt('/sys/capture-test');
    const outcome = denied.put('r.dat', Buffer.from('x'), { meta: newMeta() });
    await expect(outcome).rejects.toMatchObject({ name: 'StoreError', kind: 'denied' });
    await expect(outcome).rejects.toThrow(/^put \/sys\/capture-test\/r\.dat: .* \(E[A-Z]+\)$/);
  });

  it.each([
    ['ENOSPC', 'full'],
    ['EDQUOT', 'full'],
    ['EACCES', 'denied'],
    ['ESTALE', 'transient'],
    ['ENAMETOOLONG', 'impossible'],
    ['EXDEV', 'refused'],
  ])('classifies %s as a failure of the kind %s', (code, kind) => {
    const error = fileFailure(Object.assign(new Error(code), { code }), 'put', '/dir/r.dat');
    expect(error).toMatchObject({ kind, message: expect.stringContaining(`put /dir/r.dat: `) });
  });

  describe('whose directory', () => {
    const lost = { name: 'StoreError', kind: 'lost' };
    const ways: readonly (readonly [string, () => void])[] = [
      ['was moved away', () => fs.renameSync(dir, `${dir}.moved`)],
      ['was removed', () => fs.rmSync(dir, { recursive: true })],
      [
        'became another one',
        () => {
          fs.renameSync(dir, `${dir}.moved`);
          fs.mkdirSync(dir);
        },
      ],
    ];
    afterEach(() => {
      fs.mkdirSync(dir, { recursive: true });
      fs.rmSync(`${dir}.moved`, { recursive: true, force: true });
    });

    it.each(ways)('%s is lost to each operation, and is never created again', async (_, goes) => {
      await put('r.dat', 'ours');
      goes();
      const before = fs.existsSync(dir) ? fs.readdirSync(dir) : undefined;
      await expect(put('s.dat', 'x')).rejects.toMatchObject(lost);
      await expect(
        store.put('s.dat', Buffer.from('x'), { meta: newMeta(), precondition: ABSENT }),
      ).rejects.toMatchObject(lost);
      await expect(store.head('r.dat')).rejects.toMatchObject(lost);
      await expect(store.get('r.dat')).rejects.toMatchObject(lost);
      await expect(listOf(store, '')).rejects.toMatchObject(lost);
      await expect(store.delete(['r.dat'])).rejects.toMatchObject(lost);
      await expect(store.copy('r.dat', 's.dat')).rejects.toMatchObject(lost);
      await expect(store.sweep('', () => true)).rejects.toMatchObject(lost);
      await expect(store.confirm()).rejects.toMatchObject(lost);
      expect(fs.existsSync(dir) ? fs.readdirSync(dir) : undefined).toEqual(before);
    });

    it.each(ways)('%s during a put has not stored the body', async (_, goes) => {
      await put('r.dat', 'ours');
      const body = (async function* parts() {
        yield Buffer.from('first');
        goes();
        yield Buffer.from('second');
      })();
      await expect(store.put('s.dat', body, { meta: newMeta() })).rejects.toMatchObject(lost);
    });

    it('was replaced by another one is not used, whatever it holds under the same key', async () => {
      await put('r.dat', 'ours');
      fs.renameSync(dir, `${dir}.moved`);
      fs.mkdirSync(dir);
      fs.writeFileSync(`${dir}/r.dat`, 'theirs');
      await expect(store.delete(['r.dat'])).rejects.toMatchObject(lost);
      await expect(put('r.dat', 'new')).rejects.toMatchObject(lost);
      expect(fs.readFileSync(`${dir}/r.dat`, 'utf8')).toBe('theirs');
    });

    it.each(ways)('%s during a look does not report that nothing is there', async (_, goes) => {
      await put('r.dat', 'ours');
      const open = fs.promises.open;
      vi.spyOn(fs.promises, 'open').mockImplementationOnce((...args) => {
        goes();
        return open(...args);
      });
      await expect(store.head('r.dat')).rejects.toMatchObject(lost);
    });

    it.each(ways)('%s during a listing is not listed as if this were complete', async (_, goes) => {
      // More than a listing looks at ahead.
      for (let at = 100; at < 150; at += 1) await put(`r.${at}`, 'ours');
      const listed = async (): Promise<void> => {
        for await (const { key } of store.list('')) if (key === 'r.100') goes();
      };
      await expect(listed()).rejects.toMatchObject(lost);
    });

    it('returns is the store again, and a put that waits for it is stored', async () => {
      const patient = await openStore({ url: `file://${dir}`, flags: [], unfenced: false });
      await patient.confirm();
      fs.renameSync(dir, `${dir}.moved`);
      const waiting = patient.put('r.dat', Buffer.from('x'), { meta: newMeta() });
      await expect(put('s.dat', 'x')).resolves.toBe('stored');
      fs.rmSync(dir, { recursive: true });
      fs.renameSync(`${dir}.moved`, dir);
      expect(await kindOf(waiting)).toBe('stored');
      expect(fs.readFileSync(`${dir}/r.dat`, 'utf8')).toBe('x');
      await patient.close();
    });
  });

  it('can hold no key below an object, and no object at the folder of others', async () => {
    await put('a', 'object');
    await expect(put('a/b', 'below')).rejects.toMatchObject({ kind: 'impossible' });
    await put('c/d', 'below');
    await expect(put('c', 'object')).rejects.toMatchObject({ kind: 'impossible' });
  });

  it('removes the note of a put that was killed before it had written its key', async () => {
    await put('r.dat', 'x');
    fs.writeFileSync(`${dir}/.capture-store/tmp/b1.key`, '');
    await store.sweep('other/', () => false);
    expect(tmpFiles()).toEqual([]);
    expect((await store.head('r.dat'))?.sizeBytes).toBe(1);
  });

  it('continues to sweep when a put of another process ends meanwhile', async () => {
    await put('r.dat', 'x');
    // Listed, and gone when it is opened.
    fs.symlinkSync('gone', `${dir}/.capture-store/tmp/a1.key`);
    fs.writeFileSync(`${dir}/.capture-store/tmp/b1.key`, 'mine/r.dat');
    await store.sweep('', (key) => key.startsWith('mine/'));
    expect(tmpFiles()).toEqual(['a1.key']);
  });

  it.each([ABSENT, undefined])(
    'puts again what another attempt has swept (precondition: %o)',
    async (precondition) => {
      const patient = await openStore(
        { url: `file://${dir}`, flags: [], unfenced: false },
        { budgetMs: 10_000 },
      );
      let tries = 0;
      const onSent = (): void => {
        tries += 1;
        const tmp = `${dir}/.capture-store/tmp`;
        if (tries === 1) for (const name of fs.readdirSync(tmp)) fs.rmSync(`${tmp}/${name}`);
      };
      const options = { meta: newMeta(), precondition, onSent };
      expect(await kindOf(patient.put('r.dat', Buffer.from('x'), options))).toBe('stored');
      expect(tries).toBe(2);
      expect(await textOf((await patient.get('r.dat'))?.body)).toBe('x');
      await patient.close();
    },
  );

  it('writes the same bytes when it retries a put, and has not released their memory before', async () => {
    const patient = await openStore(
      { url: `file://${dir}`, flags: [], unfenced: false },
      { budgetMs: 20_000 },
    );
    const bytes = Buffer.from('bytes');
    let tries = 0;
    await patient.put('r.dat', bytes, {
      meta: newMeta(),
      onSent: () => {
        tries += 1;
        const tmp = `${dir}/.capture-store/tmp`;
        if (tries === 1) for (const name of fs.readdirSync(tmp)) fs.rmSync(`${tmp}/${name}`);
      },
      release: (chunk) => chunk.fill(0),
    });
    expect(tries).toBe(2);
    expect(fs.readFileSync(`${dir}/r.dat`, 'utf8')).toBe('bytes');
    await patient.close();
  });

  it('removes what a killed put left, of its own keys only', async () => {
    await put('other', 'x');
    const hang = new AbortController();
    const stuck = [put1('mine/r.dat'), put1('yours/r.dat')];
    await expect.poll(() => tmpFiles().length).toBe(4);
    await store.sweep('', (key) => key.startsWith('mine/'));
    expect(tmpFiles()).toHaveLength(2);
    hang.abort(new Error('over'));
    expect((await Promise.allSettled(stuck)).map((one) => one.status)).toEqual(['rejected', 'rejected']);

    function put1(key: string): Promise<unknown> {
      const body = (async function* parts() {
        yield Buffer.from('first');
        await new Promise((resolve) => hang.signal.addEventListener('abort', resolve, { once: true }));
      })();
      return store.put(key, body, { meta: newMeta(), signal: hang.signal });
    }
  });
});

const WRITER = fileURLToPath(new URL('fixtures/put-for-ever.ts', import.meta.url));

/** The fixture as a program that this Node can run. */
async function bundledWriter(dir: string): Promise<string> {
  const outfile = `${dir}/.capture-store/writer.mjs`;
  await build({
    entryPoints: [WRITER],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    external: ['*/s3.ts', '*/sftp.ts'],
    define: { CAPTURE_ROOT: JSON.stringify(resolve('.')) },
  });
  return outfile;
}

/** Kills the writer by SIGKILL, in a later write each time. */
async function killDuringPuts(writer: string, dir: string, round: number): Promise<void> {
  const child = spawn(process.execPath, [writer, dir], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exit = once(child, 'exit');
  let puts = 0;
  for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
    puts += chunk.length;
    if (puts > round * 3) break;
  }
  child.kill('SIGKILL');
  await exit;
}
