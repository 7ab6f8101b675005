// The fault matrix, third part (docs/fault-matrix.md): what does not end before --drain-timeout does. The run
// ends with 74, every file is named with the reason and kept where it is, and the user reads what to do.
import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Fault } from '../s3-server/faults.ts';
import { openS3Place } from './s3-place.ts';

const NAMES = ['r1.dat', 'r2.dat', 'r3.dat', 'k.chk'] as const;
const TASK = 'touch started; for i in 1 2 3; do echo $i > r$i.dat; done; echo step > k.chk';

// Each waits for its drain to end, and needs no processor for it.
describe.concurrent('a store that fails for good from the moment when the task runs', () => {
  it.each<[string, Fault, RegExp, RegExp]>([
    [
      'with 403',
      { kind: 'answer', status: 403, code: 'AccessDenied' },
      /access denied \(http 403, AccessDenied/,
      /try: check that these credentials may/,
    ],
    [
      'with expired credentials',
      { kind: 'answer', status: 400, code: 'ExpiredToken' },
      /credentials expired/,
      /try: renew them/,
    ],
    [
      'with a bucket that was deleted',
      { kind: 'answer', status: 404, code: 'NoSuchBucket' },
      /no such bucket/,
      /try: create the bucket/,
    ],
    [
      'with a clock that went wrong',
      { kind: 'answer', status: 403, code: 'RequestTimeTooSkewed' },
      /the clocks of this machine and of the server differ/,
      /try: set the clock/,
    ],
    [
      'with a quota that is used up',
      { kind: 'answer', status: 403, code: 'QuotaExceeded' },
      /the quota is used up/,
      /./,
    ],
    [
      'with 503 to everything',
      { kind: 'answer', status: 503, code: 'SlowDown' },
      /the server is busy|no time was left/,
      /./,
    ],
  ])('%s ends the run with 74, and keeps and names the files', async (_, fault, why, hint) => {
    const s3 = await openS3Place();
    try {
      s3.server.fault = () => (fs.existsSync(s3.place.at('started')) ? fault : undefined);
      const options = ['-r', 'r*.dat', '-k', 'k.chk', '--drain-timeout', '4s'];
      const run = s3.run(options, TASK);
      expect(await run.status, run.stderr()).toBe(74);
      expect(s3.keys()).toEqual([]);
      for (const name of NAMES) expect(fs.existsSync(s3.place.at(name)), name).toBe(true);
      const lines = run.stderr().split('\n');
      const last = lines.find((line) => line.includes('NOT stored')) ?? '';
      for (const name of NAMES) expect(last).toContain(name);
      expect(last).toMatch(why);
      expect(last).toContain('the last record is NOT written');
      expect(run.stderr()).toMatch(hint);
      expect(lines.filter((line) => line.includes(': the store does not work: '))).toHaveLength(1);
      expect(run.stderr()).not.toContain('test-secret');
      // A later attempt finds no lie in the store.
      expect(s3.records().map(({ record }) => record.kind)).toEqual(['started', 'started']);
    } finally {
      await s3.close();
    }
  });
});
