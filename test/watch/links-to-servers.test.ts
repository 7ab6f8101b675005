// Links to directories on a file server other than that of the work directory: it may not answer, and is asked in a thread
// only. Here a directory counts as such a server's mount.
import fs from 'node:fs';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { FileServers, NoAnswer } from '../../src/native/file-servers.ts';
import type * as Mounts from '../../src/native/mounts.ts';
import { type BehindLink, LinkedDirectories } from '../../src/watch/linked-directories.ts';
import { freshDirectory } from './support.ts';

const points = vi.hoisted((): string[] => []);
vi.mock('../../src/native/mounts.ts', async (original) => {
  const real = await original<typeof Mounts>();
  const mount = (point: string): Mounts.Mount => ({
    id: point,
    root: '/',
    point,
    device: point,
    type: 'nfs4',
    options: [],
  });
  return { ...real, allMounts: () => [...real.allMounts(), ...points.map(mount)] };
});

/** A directory on a server of its own. */
function freshServer(): string {
  const dir = freshDirectory();
  points.push(dir);
  onTestFinished(() => void points.splice(points.indexOf(dir), 1));
  return dir;
}

interface Opened {
  readonly dir: string;
  readonly links: LinkedDirectories;
  readonly servers: FileServers;
  /** Every file whose name is `x` counts. */
  lost(sinceMs?: number): Promise<readonly BehindLink[]>;
}

function opened(withinMs?: number): Opened {
  const dir = freshDirectory();
  const root = { fd: fs.openSync(dir, 'r'), path: dir };
  onTestFinished(() => fs.closeSync(root.fd));
  const servers = new FileServers(root, withinMs);
  const links = new LinkedDirectories(root, { canHold: () => true }, servers);
  const isLost = (path: string): boolean => path.endsWith('/x');
  return {
    dir,
    links,
    servers,
    lost: (sinceMs = 0) => links.lost(isLost, sinceMs, new AbortController().signal),
  };
}

/** The paths, without links, of what this thread has asked for since then. */
function askedHere(): () => readonly string[] {
  const followed = [
    vi.spyOn(fs, 'statSync'),
    vi.spyOn(fs, 'opendirSync'),
    vi.spyOn(fs, 'readdirSync'),
    vi.spyOn(fs.realpathSync, 'native'),
  ];
  const named = [vi.spyOn(fs, 'lstatSync'), vi.spyOn(fs, 'readlinkSync')];
  onTestFinished(() => [...followed, ...named].forEach((spy) => spy.mockRestore()));
  return () => {
    const paths = (
      spies: readonly { readonly mock: { readonly calls: readonly unknown[][] } }[],
    ): string[] => [...new Set(spies.flatMap(({ mock }) => mock.calls.map(([path]) => String(path))))];
    return [
      ...paths(followed).map((path) => fs.realpathSync(path)),
      ...paths(named).map((path) => {
        const cut = path.lastIndexOf('/');
        return `${fs.realpathSync(path.slice(0, cut))}/${path.slice(cut + 1)}`;
      }),
    ];
  };
}

function put(...files: readonly string[]): void {
  for (const file of files) {
    fs.mkdirSync(file.slice(0, file.lastIndexOf('/')), { recursive: true });
    fs.writeFileSync(file, '');
  }
}

const why = (link: string): string => `${link} is a symbolic link to a directory`;

describe('this thread asks no server', () => {
  it.each([
    ['that a link leads to', ''],
    ['that a link leads to below its mount', '/deep'],
    ['behind a link to a link', '/link'],
  ])('%s, and finds what is lost there', async (_, below) => {
    const { dir, links, lost } = opened();
    const server = freshServer();
    put(`${server}/deep/sub/x`);
    fs.symlinkSync('deep', `${server}/link`);
    fs.symlinkSync(`${server}${below}`, `${dir}/next`);
    fs.symlinkSync('next', `${dir}/input`);
    const { ctimeMs } = fs.statSync(`${server}/deep/sub/x`);
    const asked = askedHere();
    links.note('input');
    const [found] = await lost();
    expect(found).toEqual({ path: expect.stringMatching(/^input\/.*x$/), why: why('input') });
    expect(await lost(ctimeMs)).toHaveLength(1);
    expect(await lost(ctimeMs + 1)).toEqual([]);
    expect(links.targetOf('input')).toBeUndefined();
    expect(asked().filter((path) => path.startsWith(server))).toEqual([]);
  });

  it('where a directory behind a link is its mount', async () => {
    const { dir, links, lost } = opened();
    const outside = freshDirectory();
    put(`${outside}/mnt/x`);
    points.push(`${outside}/mnt`);
    onTestFinished(() => void points.pop());
    fs.symlinkSync(outside, `${dir}/input`);
    const asked = askedHere();
    links.note('input');
    expect(await lost()).toEqual([{ path: 'input/mnt/x', why: why('input') }]);
    expect(asked()).toContain(outside);
    expect(asked().filter((path) => path.startsWith(`${outside}/mnt`))).toEqual([]);
  });
});

it('links to files on a server do not count as links to directories, however many they are', async () => {
  const { dir, links, lost } = opened();
  const server = freshServer();
  put(`${server}/x`);
  for (let n = 0; n <= 10_000; n += 1) {
    fs.symlinkSync(`${server}/x`, `${dir}/${n}`);
    links.note(`${n}`);
  }
  expect(await lost()).toEqual([]);
});

describe('a server that does not answer', () => {
  function hang(): { readonly calls: () => readonly string[] } {
    const stat = vi.spyOn(fs.promises, 'stat').mockReturnValue(new Promise(() => undefined));
    onTestFinished(() => stat.mockRestore());
    return { calls: () => stat.mock.calls.map(([path]) => String(path)) };
  }

  it('is asked one question; nobody can tell what is behind its links, which is said for the first one', async () => {
    const { dir, links, lost } = opened(1);
    const server = freshServer();
    for (const name of ['a', 'b']) fs.symlinkSync(server, `${dir}/${name}`);
    const { calls } = hang();
    for (const name of ['a', 'b']) links.note(name);
    const unknown = [
      {
        path: 'a',
        why: `nobody can tell where this link leads: ${server} has not answered within 1 ms`,
      },
    ];
    expect(await lost()).toEqual(unknown);
    expect(await lost()).toEqual(unknown);
    expect(calls()).toEqual([`${dir}/a`]);
    fs.rmSync(`${dir}/a`);
    fs.rmSync(`${dir}/b`);
    expect(await lost()).toEqual([]);
  });

  it('is named with the link that was known before', async () => {
    const { dir, links, servers, lost } = opened();
    const server = freshServer();
    fs.symlinkSync(server, `${dir}/a`);
    links.note('a');
    expect(await lost()).toEqual([]);
    vi.spyOn(servers, 'ask').mockRejectedValue(new NoAnswer(server, 5000));
    expect(await lost()).toEqual([
      {
        path: 'a',
        why: `it is a symbolic link to a directory, and nobody can look into it: ${server} has not answered within 5.0 s`,
      },
    ]);
  });

  it('is not waited for when no time is left', async () => {
    const { dir, links } = opened();
    fs.symlinkSync(freshServer(), `${dir}/a`);
    hang();
    links.note('a');
    const over = new AbortController();
    const looking = links.lost(() => true, 0, over.signal);
    over.abort(new Error('no time'));
    await expect(looking).rejects.toThrow('no time');
  });
});
