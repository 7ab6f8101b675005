import os from 'node:os';
import { describe, expect, it } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import { spoolDirOf } from '../../../src/sidecar/startup/workers.ts';

const said: string[] = [];
const log = {
  warn: (message: string, { hint }: { hint?: string } = {}) => said.push(`${message} | ${hint}`),
} as unknown as Log;

describe('the directory of the spool', () => {
  it('is the one for temporary files, in silence', () => {
    expect(spoolDirOf({ spoolDir: undefined }, log)).toBe(os.tmpdir());
    expect(said).toEqual([]);
  });

  it('is a warning where that cannot be used', () => {
    const before = process.env['TMPDIR'];
    process.env['TMPDIR'] = '/proc/self/status';
    try {
      spoolDirOf({ spoolDir: undefined }, log);
    } finally {
      if (before === undefined) delete process.env['TMPDIR'];
      else process.env['TMPDIR'] = before;
    }
    expect(said).toEqual([
      expect.stringMatching(
        /^cannot write in \/proc\/self\/status: it is not a directory: .* \| --spool <dir>/,
      ),
    ]);
  });

  it('is named as the user has named it', () => {
    said.length = 0;
    expect(spoolDirOf({ spoolDir: '/no/such' }, log)).toBe('/no/such');
    expect(said).toEqual([expect.stringMatching(/^cannot write in \/no\/such \(--spool\): ENOENT/)]);
  });
});
