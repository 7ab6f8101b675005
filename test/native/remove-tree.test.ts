import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { emptyDirectory, removeTree } from '../../src/native/remove-tree.ts';
import { bundle } from '../support/bundle.ts';
import { testDir, type TestDir } from '../support/work-dir.ts';

let dir: TestDir;
beforeEach(() => {
  dir = testDir(fs.existsSync('/dev/shm') ? '/dev/shm' : undefined);
});
afterEach(() => dir.remove());
const at = (name: string): string => path.join(dir.path, name);

it('removes files, directories of any depth, links and FIFOs, and names of any bytes', async () => {
  const deep = at(`tree/${'d/'.repeat(500)}`);
  fs.mkdirSync(deep, { recursive: true });
  fs.writeFileSync(Buffer.concat([Buffer.from(at('tree/')), Buffer.from([0xff, 0x0a, 0x80])]), 'x');
  fs.mkdirSync(Buffer.concat([Buffer.from(at('tree/')), Buffer.from([0xfe])]));
  spawnSync('mkfifo', [at('tree/fifo')]);
  fs.mkdirSync(at('others'));
  fs.writeFileSync(at('others/file'), 'x');
  fs.symlinkSync(at('others'), at('tree/link'));
  for (let n = 0; n < 50; n += 1) fs.mkdirSync(path.join(deep, String(n)));
  await removeTree(at('tree'));
  expect(fs.readdirSync(dir.path)).toEqual(['others']);
  fs.symlinkSync(at('others'), at('link'));
  await removeTree(at('link'));
  await removeTree(at('missing'));
  expect(fs.readdirSync(dir.path)).toEqual(['others']);
  expect(fs.readdirSync(at('others'))).toEqual(['file']);
  await emptyDirectory(at('others'));
  expect(fs.readdirSync(dir.path)).toEqual(['others']);
});

it.each(['files', 'directories'])('removes 50,000 %s within a small heap', async (kind) => {
  const command = `import os,sys
os.mkdir('d')
for i in range(50000):
    name = 'd/' + 'x' * 240 + str(i)
    os.mkdir(name) if sys.argv[1] == 'directories' else os.close(os.open(name, os.O_CREAT))`;
  expect(spawnSync('python3', ['-c', command, kind], { cwd: dir.path }).status).toBe(0);
  const program = await bundle('test/native/fixtures/remove-tree.ts', dir.path);
  const flags = ['--max-old-space-size=16', '--max-semi-space-size=1'];
  const { status, stderr } = spawnSync(process.execPath, [...flags, program, at('d')], { encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  expect(fs.existsSync(at('d'))).toBe(false);
});
