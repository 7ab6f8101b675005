import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { lostBehindLinks, TO_STORE } from '../../src/model/file/behind-link.ts';
import { compileManifest } from '../../src/model/file/manifest.ts';
import type { BehindLink } from '../../src/watch/linked-directories.ts';
import { freshDirectory, watched, type Watched, type WatchedOptions } from './support.ts';

interface Opened extends Watched {
  /** A path in the work directory. */
  at(name: string): string;
  /** After a scan, unless `early`. `sinceMs`: when the attempt began. */
  lost(early?: 'early', sinceMs?: number): Promise<readonly BehindLink[]>;
}

async function opened(
  results: readonly string[],
  make: (dir: string) => void = () => undefined,
  options: WatchedOptions & { readonly exclude?: readonly string[] } = {},
): Promise<Opened> {
  const dir = freshDirectory();
  make(dir);
  const { exclude = [], ...others } = options;
  const lists = { checkpoints: [], inputs: [], companions: [], exclude, newest: undefined };
  const manifest = compileManifest({ ...lists, results });
  const watch = await watched({ dir, interest: manifest, ...others });
  return {
    ...watch,
    at: (name) => `${dir}/${name}`,
    lost: async (early, sinceMs = 0) => {
      if (early === undefined) for await (const _ of watch.watcher.scan());
      const isLost = lostBehindLinks(manifest, TO_STORE);
      return watch.watcher.links.lost(isLost, sinceMs, new AbortController().signal);
    },
  };
}

function put(...files: readonly string[]): void {
  for (const file of files) {
    fs.mkdirSync(file.slice(0, file.lastIndexOf('/')), { recursive: true });
    fs.writeFileSync(file, 'x');
  }
}

const why = (link: string): string => `${link} is a symbolic link to a directory`;

describe('a declared file is lost behind a link', () => {
  it.each([
    ['where the star is', 'step*/x', 'step2'],
    ['above an exact name', 'step2/x', 'step2'],
    ['below a declared directory', 'out/', 'out/deep/sub'],
    ['below a declared name', 'out', 'out'],
    ['at any depth', '**/x', 'a/b'],
  ])('%s', async (_, pattern, link) => {
    const { at, lost } = await opened([pattern]);
    const outside = freshDirectory();
    put(`${outside}/x`, at(`${link}.beside/y`));
    fs.symlinkSync(outside, at(link));
    expect(await lost()).toEqual([{ path: `${link}/x`, why: why(link) }]);
  });

  it('outside, only if it was changed since the attempt began', async () => {
    const { at, lost } = await opened(['**/x']);
    const outside = freshDirectory();
    put(`${outside}/x`);
    fs.symlinkSync(outside, at('data'));
    const { ctimeMs } = fs.statSync(`${outside}/x`);
    expect(await lost(undefined, ctimeMs + 1)).toEqual([]);
    expect(await lost(undefined, ctimeMs)).toEqual([{ path: 'data/x', why: why('data') }]);
  });

  it('behind further links, and in directories below', async () => {
    const { at, lost } = await opened(['o*/**/x']);
    put(at('real/deep/x'), at('first/y'));
    fs.symlinkSync('../real', at('first/second'));
    fs.symlinkSync('first', at('out'));
    expect(await lost()).toEqual([{ path: 'out/second/deep/x', why: why('out') }]);
  });

  it('behind more links than are followed', async () => {
    const { at, lost } = await opened(['o*/**/x']);
    const outside = freshDirectory();
    for (let n = 1; n < 5; n += 1) {
      put(`${outside}/${n}/y`);
      fs.symlinkSync(`../${n + 1}`, `${outside}/${n}/next`);
    }
    put(`${outside}/5/x`);
    fs.symlinkSync(`${outside}/1`, at('out'));
    expect(await lost()).toEqual([{ path: 'out', why: expect.stringContaining('more than 2 links') }]);
  });

  it('once for each link, and no longer when the link is gone', async () => {
    const { at, lost } = await opened(['a*/?']);
    put(at('real/x'), at('real/y'));
    fs.symlinkSync('real', at('a1'));
    fs.symlinkSync('real', at('a2'));
    expect((await lost()).map((one) => one.why).toSorted()).toEqual([why('a1'), why('a2')]);
    fs.rmSync(at('a1'));
    fs.rmSync(at('a2'));
    put(at('a2/x'));
    expect(await lost()).toEqual([]);
  });

  it('with a name that is not UTF-8', async () => {
    const { dir, lost } = await opened(['o*/x']);
    put(`${dir}/real/x`);
    fs.symlinkSync('real', Buffer.from(`${dir}/o\xFF`, 'latin1'));
    expect(await lost()).toEqual([{ path: 'o\uDCFF/x', why: why(String.raw`o\xff`) }]);
  });

  it('among too many names outside', async () => {
    const { at, lost } = await opened(['*/x']);
    const outside = freshDirectory();
    for (let n = 0; n <= 10_000; n += 1) fs.writeFileSync(`${outside}/${n}`, '');
    fs.symlinkSync(outside, at('data'));
    expect(await lost()).toEqual([{ path: 'data', why: expect.stringContaining('more than 10000 names') }]);
  });
});

describe('nothing is lost behind a link', () => {
  it.each([
    ['beside the directory that it leads to', '*/x', 'latest', 'step-7'],
    ['to the directory itself', '**', 'self', '.'],
    ['to a directory above', 'a/**', 'a/up', '../a'],
    ['that goes round', '**', 'step-7/round', '../latest'],
    ['to nothing', '*/x', 'latest', 'nowhere'],
    ['to a file', '*/*', 'latest', 'step-7/x'],
    ['to where nothing matches', 'o*/z', 'out', 'step-7'],
  ])('%s', async (_, pattern, link, target) => {
    const { at, lost } = await opened([pattern]);
    put(at('step-7/x'), at('a/x'), at('.capture/x'));
    fs.symlinkSync('step-7', at('latest2'));
    fs.rmSync(at('latest2'));
    if (link !== 'latest') fs.symlinkSync('step-7', at('latest'));
    fs.symlinkSync(target, at(link));
    expect(await lost()).toEqual([]);
  });

  it('in a web of them', async () => {
    const { at, lost } = await opened(['**/x']);
    const all = [...Array.from({ length: 16 }).keys()];
    for (const from of all) put(at(`${from}/x`));
    for (const from of all) for (const to of all) fs.symlinkSync(`../${to}`, at(`${from}/to-${to}`));
    expect(await lost()).toEqual([]);
  });

  it('that is excluded', async () => {
    const { at, lost } = await opened(['*/x'], undefined, { exclude: ['data'] });
    const outside = freshDirectory();
    put(`${outside}/x`);
    fs.symlinkSync(outside, at('data'));
    expect(await lost()).toEqual([]);
  });
});

describe('without a scan, a link is known', () => {
  const early = { linkInterest: { canHold: () => true } };

  it('that stood before', async () => {
    const { lost } = await opened(['s*/x'], (dir) => {
      put(`${dir}/real/x`);
      fs.symlinkSync('real', `${dir}/s1`);
    });
    expect(await lost('early')).toEqual([{ path: 's1/x', why: why('s1') }]);
  });

  it.each(['made', 'renamed into place', 'in a directory that is renamed into place'])('%s', async (how) => {
    const { at, lost, drained } = await opened(['s*/x', 't/s*/x'], undefined, early);
    put(at('real/x'), at('tmp/y'));
    let link = 's1';
    if (how === 'made') fs.symlinkSync('real', at('s1'));
    else if (how === 'renamed into place') {
      fs.symlinkSync('real', at('new'));
      fs.renameSync(at('new'), at('s1'));
    } else {
      fs.symlinkSync('../real', at('tmp/s1'));
      fs.renameSync(at('tmp'), at('t'));
      link = 't/s1';
    }
    drained();
    expect(await lost('early')).toEqual([{ path: `${link}/x`, why: why(link) }]);
  });

  it('before there is anything behind it', async () => {
    const { at, lost, drained } = await opened(['s*/x'], undefined, early);
    fs.symlinkSync('real', at('s1'));
    drained();
    expect(await lost('early')).toEqual([]);
    put(at('real/x'));
    expect(await lost('early')).toEqual([{ path: 's1/x', why: why('s1') }]);
  });
});
