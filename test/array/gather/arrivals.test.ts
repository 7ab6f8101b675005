// When downloads get their names: src/array/gather/arrivals.ts.
import { describe, expect, it } from 'vitest';
import { type Arrival, Arrivals } from '../../../src/array/gather/arrivals.ts';

const { signal } = new AbortController();

function arrival(name: string, size = 1): Arrival {
  const source = {
    path: name,
    kind: 'file',
    key: name,
    compressed: false,
    md5: '',
    mtimeNs: '0',
    size,
  } as const;
  return { index: '0', source, temp: `temp of ${name}` };
}

/** A directory that notes what is done in it, and whose sync ends when `release` is called. */
function newDirectory(syncsWhole = true) {
  const notes: string[] = [];
  let release = (_error?: Error): void => undefined;
  return {
    notes,
    release: (error?: Error) => release(error),
    syncsWhole,
    sync: () => {
      notes.push('sync');
      return new Promise<void>((resolve, reject) => {
        release = (error) => (error === undefined ? resolve() : reject(error));
      });
    },
    place: async ({ source }: { readonly source: { readonly path: string } }) => {
      notes.push(source.path);
      return undefined;
    },
  };
}

describe('downloads that wait for their names', () => {
  it('get them when one sync has ended, and what arrives meanwhile waits for the next', async () => {
    const directory = newDirectory();
    const arrivals = new Arrivals(directory, () => undefined);
    for (let n = 0; n < 255; n += 1) await arrivals.add(arrival(`a${n}`), signal);
    expect(directory.notes).toEqual([]);
    const full = arrivals.add(arrival('the 256th'), signal);
    await arrivals.add(arrival('too late'), signal);
    expect(directory.notes).toEqual(['sync']);
    directory.release();
    await full;
    expect(directory.notes).toHaveLength(257);
    expect(directory.notes.at(-1)).toBe('the 256th');
    const rest = arrivals.finish(signal);
    expect(directory.notes.at(-1)).toBe('sync');
    directory.release();
    // And one for the names themselves.
    await expect.poll(() => directory.notes.slice(-2)).toEqual(['too late', 'sync']);
    directory.release();
    await rest;
  });

  it('get them when they have many bytes', async () => {
    const directory = newDirectory();
    const arrivals = new Arrivals(directory, () => undefined);
    const full = arrivals.add(arrival('large', 64 * 2 ** 20), signal);
    directory.release();
    await full;
    expect(directory.notes).toEqual(['sync', 'large']);
  });

  it('do not get them when the sync fails', async () => {
    const directory = newDirectory();
    const told: unknown[] = [];
    const arrivals = new Arrivals(directory, (one) => told.push(one));
    await arrivals.add(arrival('a'), signal);
    const placing = arrivals.place(signal);
    directory.release(new Error('EIO'));
    await expect(placing).rejects.toThrow('EIO');
    await arrivals.place(signal);
    expect({ notes: directory.notes, told }).toEqual({ notes: ['sync'], told: [] });
  });

  it('get them at once where each is synced alone', async () => {
    const directory = newDirectory(false);
    const arrivals = new Arrivals(directory, () => undefined);
    const added = arrivals.add(arrival('a'), signal);
    directory.release();
    await added;
    expect(directory.notes.at(-1)).toBe('a');
  });
});
