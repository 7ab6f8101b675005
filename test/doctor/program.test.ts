// What the doctor says of Node and the packages with binaries.
import { describe, expect, it } from 'vitest';
import type { Finding } from '../../src/doctor/finding.ts';
import { examineProgram, type Packages, thesePackages } from '../../src/doctor/program.ts';

async function findings(packages: Partial<Packages> = {}): Promise<readonly Finding[]> {
  const found: Finding[] = [];
  for await (const one of examineProgram({ ...thesePackages, ...packages })) found.push(one);
  return found;
}

const fails = (): never => {
  throw new Error('no binary for this machine');
};

describe('the program', () => {
  it('works on this machine', async () => {
    const found = await findings();
    expect(found.filter(({ level }) => level === 'fail')).toEqual([]);
    expect(found[0]?.says).toContain(`Node ${process.versions.node}, Linux `);
  });

  it('cannot do without koffi', async () => {
    expect(await findings({ libc: fails })).toContainEqual(
      expect.objectContaining({
        check: 'koffi',
        level: 'fail',
        mend: expect.stringContaining('npm ci') as string,
      }),
    );
  });

  it('stores uncompressed without zstd, which is a warning', async () => {
    expect(await findings({ compressor: async () => undefined })).toContainEqual(
      expect.objectContaining({ check: 'zstd', level: 'warn' }),
    );
    expect(await findings({ compressor: async () => 'zlib' })).toContainEqual(
      expect.objectContaining({ check: 'zstd', level: 'ok' }),
    );
  });

  it('misses the portable watcher only where inotify is short', async () => {
    expect(await findings({ portableWatcher: fails })).toContainEqual(
      expect.objectContaining({ check: 'portable watcher', level: 'warn' }),
    );
  });
});
