// Who can read what a file store writes, and that nothing which somebody else has put into its directory is written
// through.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { md5Of } from '../../../src/model/md5.ts';
import { ABSENT, type Store } from '../../../src/store/contract/store.ts';
import { openStore } from '../../../src/store/open.ts';
import { kindOf, listOf, newMeta } from '../contract.ts';

let parent: string;
let dir: string;
let store: Store;
let umask: number;
beforeEach(async () => {
  umask = process.umask(0o022);
  parent = fs.mkdtempSync(join(os.tmpdir(), 'file-modes-'));
  dir = join(parent, 'store');
  store = await openStore({ url: `file://${dir}`, flags: [], unfenced: false }, { budgetMs: 0 });
});
afterEach(async () => {
  process.umask(umask);
  await store.close();
  fs.rmSync(parent, { recursive: true });
});

const RECORD = '.capture/t/0/0001-000000.started.json';
const put = (key: string, mode?: string): Promise<unknown> =>
  store.put(key, Buffer.from('x'), { meta: { ...newMeta(), ...(mode === undefined ? {} : { mode }) } });
const modeOf = (path: string): string => (fs.statSync(join(dir, path)).mode & 0o7777).toString(8);

/** The modes of all that is there but objects: of directories, and of files. */
function othersModes(): Record<'directories' | 'files', ReadonlySet<string>> {
  const found = { directories: new Set<string>(), files: new Set<string>() };
  const all = fs.readdirSync(dir, { recursive: true, withFileTypes: true });
  for (const one of all) {
    const path = join(one.parentPath, one.name).slice(dir.length + 1);
    if (one.isDirectory()) found.directories.add(modeOf(path));
    else if (path.startsWith('.capture')) found.files.add(modeOf(path));
  }
  return found;
}

describe('an object', () => {
  it.each([
    ['600', '600'],
    ['640', '640'],
    ['644', '644'],
    ['666', '644'],
    ['755', '755'],
    ['777', '755'],
    // Its owner can always read it, and write over it by hand.
    ['444', '644'],
    ['0', '600'],
    ['6755', '755'],
    ['no mode', '600'],
  ])('of a file with the mode %s has the mode %s under the umask 022', async (mode, has) => {
    await put('r.dat.0', mode);
    expect(modeOf('r.dat.0')).toBe(has);
  });

  it('keeps its mode when it is copied or gets another name', async () => {
    await put('r.dat.0.partial-1', '640');
    await store.copy('r.dat.0.partial-1', 'r.dat.0.~1~');
    await store.promote('r.dat.0.partial-1', 'r.dat.0');
    expect([modeOf('r.dat.0'), modeOf('r.dat.0.~1~')]).toEqual(['640', '640']);
  });
});

describe('an object whose metadata another user of the group has forged', () => {
  beforeEach(async () => {
    fs.mkdirSync(dir);
    fs.chmodSync(dir, 0o2770);
    process.umask(0o002);
    await put('r.dat.0', '600');
    const meta = fs
      .readdirSync(join(dir, '.capture-store/meta'), { recursive: true, withFileTypes: true })
      .filter((one) => one.isFile())
      .map((one) => join(one.parentPath, one.name));
    const [file = ''] = meta;
    const told = JSON.parse(fs.readFileSync(file, 'utf8'));
    fs.writeFileSync(file, JSON.stringify({ ...told, meta: { ...told.meta, mode: '666' } }));
  });

  it('gives its copies no more rights than its file has', async () => {
    expect((await store.head('r.dat.0'))?.meta['mode']).toBe('666');
    await store.copy('r.dat.0', 'r.dat.0.~1~');
    await store.promote('r.dat.0', 's.dat.0');
    await store.copy('s.dat.0', 's.dat.0.~1~');
    expect([modeOf('r.dat.0.~1~'), modeOf('s.dat.0'), modeOf('s.dat.0.~1~')]).toEqual(['600', '600', '600']);
  });

  it('reports the mode of its file', async () => {
    expect((await store.head('r.dat.0'))?.permissions).toBe(0o600);
    const got = await store.get('r.dat.0');
    expect(got?.permissions).toBe(0o600);
    await got?.body[Symbol.asyncIterator]().return?.();
  });
});

describe('a file that is not an object of a task', () => {
  it('gives a copy no more rights than it has: a private file that somebody put there', async () => {
    fs.mkdirSync(dir);
    fs.chmodSync(dir, 0o2770);
    process.umask(0o002);
    fs.writeFileSync(join(dir, 'in.dat'), 'x', { mode: 0o600 });
    await store.copy('in.dat', 'copy');
    expect(modeOf('copy')).toBe('600');
  });

  it('is open to its user only, like its directories; directories of objects are as open as any new one', async () => {
    await put(RECORD);
    await put('out/r.dat.0', '644');
    await store.promote('out/r.dat.0', 'out/s.dat.0');
    expect([modeOf(''), modeOf('out')]).toEqual(['755', '755']);
    fs.renameSync(join(dir, 'out'), join(parent, 'out'));
    expect(othersModes()).toEqual({ directories: new Set(['700']), files: new Set(['600']) });
  });

  it.each([
    ['002', { directories: new Set(['2770']), files: new Set(['660']) }],
    ['022', { directories: new Set(['2750']), files: new Set(['640']) }],
    ['077', { directories: new Set(['2700']), files: new Set(['600']) }],
  ])('is open to the group in a set-group-ID directory, under the umask %s', async (mask, modes) => {
    fs.mkdirSync(dir);
    fs.chmodSync(dir, 0o2775);
    process.umask(Number.parseInt(mask, 8));
    await put(RECORD);
    await put('out/r.dat.0', '600');
    expect(modeOf('out/r.dat.0')).toBe('600');
    fs.renameSync(join(dir, 'out'), join(parent, 'out'));
    expect(othersModes()).toEqual(modes);
  });

  it('is open to the group in a store that is created in a set-group-ID directory', async () => {
    process.umask(0o002);
    fs.chmodSync(parent, 0o2770);
    await put(RECORD);
    expect([modeOf(''), modeOf(RECORD)]).toEqual(['2775', '660']);
  });

  it('keeps its mode if somebody put it there', async () => {
    await put('r.dat.0', '600');
    fs.writeFileSync(join(dir, 'in.dat'), 'x', { mode: 0o644 });
    await store.promote('in.dat', 'in.dat.0');
    expect(modeOf('in.dat.0')).toBe('644');
  });
});

describe('what another user has put into the directory', () => {
  let victim: string;
  beforeEach(() => {
    victim = join(parent, 'victim');
    fs.writeFileSync(victim, 'mine');
  });

  it('is not written through: a link at a name that follows from the inode of a put', async () => {
    await put('first', '600');
    const hash = md5Of('r.dat.0');
    const meta = join(dir, '.capture-store/meta', hash.slice(0, 2));
    const tmp = join(dir, '.capture-store/tmp');
    const planted: string[] = [];
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x');
      fs.mkdirSync(meta, { recursive: true });
      for (const name of fs.readdirSync(tmp)) {
        const { ino } = fs.statSync(join(tmp, name));
        for (const ending of ['', '.new']) {
          planted.push(join(meta, `${hash}.${ino}${ending}`));
          fs.symlinkSync(victim, planted.at(-1) ?? '');
        }
      }
    }
    await store.put('r.dat.0', body(), { meta: newMeta() });
    expect(planted).toHaveLength(4);
    expect(fs.readFileSync(victim, 'utf8')).toBe('mine');
    expect((await store.head('r.dat.0'))?.meta['push']).toBeDefined();
  });

  it('is not written through: a link at the name of a temporary file that is visible in the directory', async () => {
    await put('first', '600');
    const tmp = join(dir, '.capture-store/tmp');
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x');
      const name = fs.readdirSync(tmp).find((one) => !one.includes('.')) ?? '';
      fs.symlinkSync(victim, join(tmp, `${name}.meta`));
    }
    await expect(store.put('r.dat.0', body(), { meta: newMeta() })).rejects.toMatchObject({
      kind: 'refused',
    });
    expect(fs.readFileSync(victim, 'utf8')).toBe('mine');
    expect(fs.readdirSync(tmp)).toEqual([]);
  });

  it('is neither followed nor waited for if it is in place of a note or of metadata', async () => {
    await put('r.dat.0', '600');
    const tmp = join(dir, '.capture-store/tmp');
    fs.symlinkSync(victim, join(tmp, 'a.key'));
    execFileSync('mkfifo', [join(tmp, 'b.key'), join(dir, 'fifo')]);
    const hash = md5Of('r.dat.0');
    const meta = join(dir, '.capture-store/meta', hash.slice(0, 2));
    const [name = ''] = fs.readdirSync(meta);
    fs.rmSync(join(meta, name));
    fs.symlinkSync(victim, join(meta, name));
    expect((await store.head('r.dat.0'))?.meta).toEqual({});
    expect(await store.get('fifo')).toBeUndefined();
    expect(await store.sweep('', async () => true)).toBe(true);
    expect(fs.readdirSync(tmp).toSorted()).toEqual(['a.key', 'b.key']);
  });

  it.each<[string, (at: string) => number | void]>([
    ['a directory', (at) => fs.mkdirSync(at)],
    ['a file of 3 GiB', (at) => sparse(at, 3 * 2 ** 30)],
    ['a file of 500 MiB', (at) => sparse(at, 500 * 2 ** 20)],
    [
      'a FIFO that somebody holds open',
      (at) => {
        execFileSync('mkfifo', [at]);
        return fs.openSync(at, 'r+');
      },
    ],
    ['no JSON', (at) => fs.writeFileSync(at, 'no JSON')],
  ])('stops no operation if it is %s in place of a note or of metadata', async (_, plant) => {
    await put('r.dat.0', '600');
    const tmp = join(dir, '.capture-store/tmp');
    fs.writeFileSync(join(tmp, 'killed.key'), '');
    fs.writeFileSync(join(tmp, 'odd.key'), 'r.dat.0');
    fs.mkdirSync(join(tmp, 'odd'));
    const hash = md5Of('r.dat.0');
    const meta = join(dir, '.capture-store/meta', hash.slice(0, 2));
    const [name = ''] = fs.readdirSync(meta);
    fs.rmSync(join(meta, name));
    const held = [plant(join(tmp, 'evil.key')), plant(join(meta, name))];
    try {
      expect((await store.head('r.dat.0'))?.meta).toEqual({});
      expect(await store.sweep('', async (key) => key === 'r.dat.0')).toBe(true);
      expect(fs.readdirSync(tmp).toSorted()).toEqual(['evil.key', 'odd']);
    } finally {
      for (const fd of held) if (typeof fd === 'number') fs.closeSync(fd);
    }
  });

  it('stops no put if it is a directory in place of the temporary file or of its note', async () => {
    await put('first', '600');
    const tmp = join(dir, '.capture-store/tmp');
    let names: readonly string[] = [];
    async function* body(): AsyncGenerator<Uint8Array> {
      names = fs.readdirSync(tmp);
      const note = join(tmp, names.find((name) => name.endsWith('.key')) ?? '');
      fs.unlinkSync(note);
      fs.mkdirSync(note);
      yield Buffer.from('x');
    }
    expect(await kindOf(store.put('r.dat.0', body(), { meta: newMeta() }))).toBe('stored');
    expect(names).toHaveLength(2);
    expect(fs.readdirSync(tmp)).toHaveLength(1);
    expect((await store.head('r.dat.0'))?.meta['push']).toBeDefined();
  });

  it('hides no failure of a put if it is a directory in place of its note', async () => {
    await put('first', '600');
    const tmp = join(dir, '.capture-store/tmp');
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x');
      for (const name of fs.readdirSync(tmp)) {
        fs.unlinkSync(join(tmp, name));
        fs.mkdirSync(join(tmp, name));
      }
      throw new Error('the body failed');
    }
    await expect(store.put('r.dat.0', body(), { meta: newMeta() })).rejects.toThrow('the body failed');
  });

  it('stops no replacement and no deletion if it is a directory in place of metadata', async () => {
    const metaOf = (): string => {
      const all = fs.readdirSync(join(dir, '.capture-store/meta'), { recursive: true, withFileTypes: true });
      const file = all.find((one) => one.isFile());
      return join(file?.parentPath ?? '', file?.name ?? '');
    };
    const plant = (at: string): void => {
      fs.unlinkSync(at);
      fs.mkdirSync(at);
    };
    await put('r.dat.0', '600');
    plant(metaOf());
    expect(await kindOf(store.put('r.dat.0', Buffer.from('new'), { meta: newMeta() }))).toBe('stored');
    plant(metaOf());
    await store.delete(['r.dat.0']);
    expect(await store.head('r.dat.0')).toBeUndefined();
  });

  describe.each<[string, (outside: string) => void]>([
    ['outside', (outside) => fs.symlinkSync(outside, join(dir, 'folder'))],
    [
      'by a way of several links',
      (outside) => {
        fs.symlinkSync(outside, join(dir, 'other'));
        fs.symlinkSync('other', join(dir, 'folder'));
      },
    ],
    [
      'to another folder of the store',
      (outside) => {
        fs.renameSync(outside, join(dir, 'other'));
        fs.symlinkSync(join(dir, 'other'), outside);
        fs.symlinkSync('other', join(dir, 'folder'));
      },
    ],
  ])('a link in place of a folder, that leads %s,', (_, link) => {
    let outside: string;
    const there = (): Record<string, string> =>
      Object.fromEntries(
        fs.readdirSync(outside).map((name) => [name, fs.readFileSync(join(outside, name), 'utf8')]),
      );
    beforeEach(async () => {
      outside = join(parent, 'outside');
      fs.mkdirSync(outside);
      fs.writeFileSync(join(outside, 'r.dat.0'), 'mine');
      await put('first');
      link(outside);
    });

    it('leads to no object', async () => {
      expect(await store.head('folder/r.dat.0')).toBeUndefined();
      expect(await store.get('folder/r.dat.0')).toBeUndefined();
      for (const prefix of ['folder/', 'folder/r']) expect(await listOf(store, prefix)).toEqual([]);
      expect((await listOf(store, '')).filter((key) => key.startsWith('folder'))).toEqual([]);
      expect(await store.folders('folder/')).toEqual([]);
      await expect(store.copy('folder/r.dat.0', 'copy')).rejects.toMatchObject({ kind: 'impossible' });
      await expect(store.promote('folder/r.dat.0', 'copy')).rejects.toMatchObject({ kind: 'missing' });
      expect(there()).toEqual({ 'r.dat.0': 'mine' });
    });

    it.each<[string, () => Promise<unknown>]>([
      ['put', () => put('folder/r.dat.0')],
      ['put of a new name', () => put('folder/new')],
      ['put into a new folder', () => put('folder/new/s.dat')],
      [
        'put that only creates',
        () => store.put('folder/new', Buffer.from('x'), { meta: newMeta(), precondition: ABSENT }),
      ],
      ['copy', () => store.copy('first', 'folder/new')],
      ['promotion', () => store.promote('first', 'folder/new')],
      ['deletion', () => store.delete(['folder/r.dat.0'])],
    ])('is not followed by a %s, which reports it', async (__, act) => {
      await expect(act()).rejects.toMatchObject({
        kind: 'impossible',
        message: expect.stringContaining('and is not followed'),
        hint: expect.stringContaining('remove it'),
      });
      expect(there()).toEqual({ 'r.dat.0': 'mine' });
      expect((await store.head('first'))?.sizeBytes).toBe(1);
      expect(fs.readdirSync(join(dir, '.capture-store/tmp'))).toEqual([]);
    });
  });

  it('is neither followed nor removed if it is in place of our own folders', async () => {
    await put('r.dat.0');
    const ours = join(dir, '.capture-store');
    const outside = join(parent, 'outside');
    fs.renameSync(ours, outside);
    fs.symlinkSync(outside, ours);
    fs.writeFileSync(join(outside, 'tmp/a.key'), 'r.dat.0');
    fs.writeFileSync(join(outside, 'tmp/a'), 'mine');
    expect((await store.head('r.dat.0'))?.meta).toEqual({});
    await store.sweep('', () => true);
    await expect(put('r.dat.1')).rejects.toMatchObject({ kind: 'impossible' });
    await store.delete(['r.dat.0']);
    expect(fs.readdirSync(join(outside, 'tmp')).toSorted()).toEqual(['a', 'a.key']);
    const meta = fs.readdirSync(join(outside, 'meta'), { recursive: true, encoding: 'utf8' });
    expect(meta.filter((name) => name.includes('.'))).toHaveLength(1);
  });

  it.each<[string, (at: string) => void]>([
    ['a link that leads nowhere', (at) => fs.symlinkSync('nowhere', at)],
    ['a FIFO', (at) => void execFileSync('mkfifo', [at])],
    ['a directory', (at) => fs.mkdirSync(at)],
  ])('is not an object if it is %s under a key', async (_, plant) => {
    await put('first');
    plant(join(dir, 'r.dat.0'));
    expect(await store.head('r.dat.0')).toBeUndefined();
    expect(await store.get('r.dat.0')).toBeUndefined();
    expect(await listOf(store, '')).toEqual(['first']);
    for (const act of [store.copy, store.promote])
      await expect(act('r.dat.0', 'copy')).rejects.toMatchObject({
        kind: expect.stringMatching(/missing|impossible/),
      });
    await store.delete(['r.dat.0']);
    expect((await store.head('first'))?.sizeBytes).toBe(1);
  });

  it.each<[string, () => string]>([
    ['a file of ours', () => victim],
    ['another object', () => 'first'],
  ])('is read if it is a link under a key, to %s, but not stored under another key', async (_, target) => {
    await put('first');
    fs.symlinkSync(target(), join(dir, 'r.dat.0'));
    const { ino, size, mtimeNs } = fs.statSync(join(dir, 'r.dat.0'), { bigint: true });
    const name = md5Of('r.dat.0');
    const forged = {
      key: 'r.dat.0',
      size: String(size),
      mtimeNs: String(mtimeNs),
      meta: { mode: '0644', push: 'x' },
    };
    fs.mkdirSync(join(dir, '.capture-store/meta', name.slice(0, 2)), { recursive: true });
    fs.writeFileSync(
      join(dir, '.capture-store/meta', name.slice(0, 2), `${name}.${ino}`),
      JSON.stringify(forged),
    );
    const head = await store.head('r.dat.0');
    expect([head?.sizeBytes, head?.meta]).toEqual([Number(size), {}]);
    for (const act of [store.copy, store.promote])
      await expect(act('r.dat.0', 'copy')).rejects.toMatchObject({ kind: 'impossible' });
    expect(fs.existsSync(join(dir, 'copy'))).toBe(false);
    await store.delete(['r.dat.0']);
    expect(fs.readFileSync(victim, 'utf8')).toBe('mine');
    expect((await store.head('first'))?.sizeBytes).toBe(1);
  });

  // Only root may give a link to another user.
  describe.runIf(process.getuid?.() === 0)('is a link of another user', () => {
    const [planter, reader] = [65_533, 65_534];
    const plant = (target: string, name: string): void => {
      fs.symlinkSync(target, join(dir, name));
      fs.lchownSync(join(dir, name), planter, planter);
    };
    beforeEach(async () => {
      await put('first');
      fs.chownSync(victim, reader, reader);
    });

    it('to a file of a third one: it is refused, and the message names it', async () => {
      plant(victim, 'r.dat.0');
      for (const act of [store.get, store.head])
        await expect(act('r.dat.0')).rejects.toMatchObject({
          kind: 'refused',
          message: expect.stringContaining(
            `${dir}/r.dat.0: user ${planter} has made a link there, to a file of user ${reader}`,
          ),
        });
    });

    it('in the place of the target of our own link: it is refused', async () => {
      fs.symlinkSync('other', join(dir, 'r.dat.0'));
      plant(victim, 'other');
      await expect(store.get('r.dat.0')).rejects.toMatchObject({ kind: 'refused' });
    });

    it('in the place of a folder on the way of our own link: it is refused', async () => {
      fs.symlinkSync('inputs/victim', join(dir, 'r.dat.0'));
      plant('..', 'inputs');
      await expect(store.get('r.dat.0')).rejects.toMatchObject({ kind: 'refused' });
    });

    it('while our own link through folders and `..` is followed', async () => {
      fs.mkdirSync(join(dir, 'a'));
      fs.symlinkSync('../..', join(dir, 'a', 'up'));
      fs.symlinkSync('a/up//victim', join(dir, 'r.dat.0'));
      fs.symlinkSync(victim, join(dir, 'absolute.0'));
      expect((await store.head('r.dat.0'))?.sizeBytes).toBe(4);
      expect((await store.head('absolute.0'))?.sizeBytes).toBe(4);
    });

    it.each<[string, () => void]>([
      ['the file is also theirs', () => fs.chownSync(victim, planter, planter)],
      ['the directory of the store is theirs', () => fs.chownSync(dir, planter, planter)],
    ])('which is followed if %s', async (_, give) => {
      give();
      const opened = await openStore({ url: `file://${dir}`, flags: [], unfenced: false }, { budgetMs: 0 });
      plant(victim, 'r.dat.0');
      expect((await opened.head('r.dat.0'))?.sizeBytes).toBe(4);
      await opened.close();
    });

    it('in a circle: it is no object', async () => {
      plant('other', 'r.dat.0');
      plant('r.dat.0', 'other');
      expect(await store.head('r.dat.0')).toBeUndefined();
    });
  });

  it('is not written through if it is a link under a key: a put replaces the link', async () => {
    await put('first');
    fs.symlinkSync(victim, join(dir, 'r.dat.0'));
    expect(await kindOf(store.put('r.dat.0', Buffer.from('new'), { meta: newMeta() }))).toBe('stored');
    expect(fs.readFileSync(victim, 'utf8')).toBe('mine');
    expect(fs.lstatSync(join(dir, 'r.dat.0')).isFile()).toBe(true);
  });

  it('is not written through if a link replaces the folder of temporary files during a put', async () => {
    await put('first');
    const [tmp, outside] = [join(dir, '.capture-store/tmp'), join(parent, 'outside')];
    fs.mkdirSync(outside);
    const changed = new Set<string | null>();
    const watcher = fs.watch(outside, (___, name) => changed.add(name));
    async function* body(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('x');
      fs.renameSync(tmp, join(dir, 'moved'));
      fs.symlinkSync(outside, tmp);
    }
    expect(await kindOf(store.put('r.dat.0', body(), { meta: newMeta() }))).toBe('stored');
    fs.writeFileSync(join(outside, 'last'), '');
    await expect.poll(() => changed).toContain('last');
    watcher.close();
    expect([...changed]).toEqual(['last']);
    expect(fs.readdirSync(join(dir, 'moved'))).toEqual([]);
  });

  it.each<[string, (at: string) => void]>([
    ['a link', (at) => fs.symlinkSync(victim, at)],
    ['a FIFO', (at) => void execFileSync('mkfifo', [at])],
  ])('is reported by a create-only put if it is %s under the key', async (_, plant) => {
    await put('first');
    plant(join(dir, 'r.dat.0'));
    const options = { meta: newMeta(), precondition: ABSENT };
    await expect(store.put('r.dat.0', Buffer.from('x'), options)).rejects.toMatchObject({
      kind: 'impossible',
      message: expect.stringContaining('(ELOOP)'),
    });
  });

  const sparse = (at: string, bytes: number): void => {
    fs.writeFileSync(at, '');
    fs.truncateSync(at, bytes);
  };
});
