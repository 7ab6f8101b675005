// GNU parallel in place of a scheduler: the lines of docs/schedulers.md, as printed but for the store.
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';

const LINES =
  /```sh\n(mkdir [^`]*\nparallel [^`]*)```/.exec(fs.readFileSync('docs/schedulers.md', 'utf8'))?.[1] ?? '';
/** Counts its attempts in its checkpoint, and has its result in the third. */
const TASK = `#!/bin/sh
n=$(($(cat k.chk 2> /dev/null || echo 0) + 1))
echo $n > k.chk
capture flush || exit
[ $n -ge 3 ] || exit 9
echo "index $CAPTURED_INDEX in $(basename "$PWD"), attempt $CAPTURED_ATTEMPT" > r.dat
`;

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'parallel-'));
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

it('GNU parallel runs each index until it is done, and what is done no more', () => {
  fs.writeFileSync(path.join(dir, 'task'), TASK, { mode: 0o755 });
  expect(LINES).toContain('s3://lab/run7');
  const run = () => {
    const { status, stderr } = spawnSync('bash', ['-c', LINES.replace('s3://lab/run7', `${dir}/store`)], {
      cwd: dir,
      encoding: 'utf8',
      env: {
        PATH: `${path.resolve('bin')}:${process.env['PATH']}`,
        HOME: dir,
        TMPDIR: os.tmpdir(),
        CAPTURE_COMPRESSION: 'none',
      },
    });
    return { status, stderr };
  };
  const first = run();
  expect(first.status, first.stderr).toBe(0);
  for (const index of [1, 2, 3]) {
    const stored = fs.readFileSync(path.join(dir, `store/r.dat.${index}`), 'utf8');
    expect(stored).toBe(`index ${index} in w${index}, attempt 3\n`);
  }
  const again = run();
  expect(again.status, again.stderr).toBe(0);
  expect(again.stderr.match(/done already/g)).toHaveLength(3);
});
