import os from 'node:os';
import { describe, expect, it } from 'vitest';
import type { Log } from '../../../src/log/log.ts';
import { spoolWarner, spoolDirOf } from '../../../src/sidecar/startup/workers.ts';

const said: string[] = [];
const log = {
  warn: (message: string, { hint }: { hint?: string } = {}) => said.push(`${message} | ${hint}`),
} as unknown as Log;

describe('the directory of the spool', () => {
  it('is the one for temporary files, without a message', () => {
    expect(spoolDirOf({ spoolDir: undefined }, log)).toBe(os.tmpdir());
    expect(said).toEqual([]);
  });

  it('causes a warning if that directory cannot be used', () => {
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

  it('is named as the user named it', () => {
    said.length = 0;
    expect(spoolDirOf({ spoolDir: '/no/such' }, log)).toBe('/no/such');
    expect(said).toEqual([expect.stringMatching(/^cannot write in \/no\/such \(--spool\): ENOENT/)]);
  });
});

it('a file that does not fit into the spool is named once, with what is too small', () => {
  said.length = 0;
  const MiB = 2 ** 20;
  const spoolFull = spoolWarner(log, { spoolLimitBytes: 8 * MiB });
  spoolFull('k.chk', 40 * MiB);
  spoolFull('k.chk', 40 * MiB);
  spoolFull('s.chk', 5 * MiB);
  expect(said).toEqual([
    expect.stringMatching(/has no room for k\.chk \(40\.0 MiB\), .* \| --spool-limit: it is 8\.0 MiB; /),
    expect.stringMatching(/has no room for s\.chk \(5\.0 MiB\), .* \| --spool <dir> with more room$/),
  ]);
});
