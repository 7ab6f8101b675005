import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
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

it('removes a tree that is deeper than any path may be long', async () => {
  const command = `import os
for i in range(3000):
    os.mkdir('deep'); os.chdir('deep')
    open('file', 'w').close()
    if i % 1000 == 0: os.mkdir('empty')`;
  expect(spawnSync('python3', ['-c', command], { cwd: dir.path }).status).toBe(0);
  await removeTree(at('deep'));
  expect(fs.readdirSync(dir.path)).toEqual([]);
});

it('removes nothing outside if a directory is replaced by a link while it is emptied', async () => {
  fs.mkdirSync(at('others/sub'), { recursive: true });
  fs.writeFileSync(at('others/file'), 'x');
  fs.mkdirSync(at('tree/dir/inner'), { recursive: true });
  for (const name of ['dir', 'dir/inner'])
    for (let n = 0; n < 2000; n += 1) fs.writeFileSync(at(`tree/${name}/${n}`), 'x');
  const gone = vi.spyOn(fs, 'unlinkSync');
  onTestFinished(() => gone.mockRestore());
  // Halfway through each of the two directories its name leads elsewhere.
  let calls = 0;
  gone.mockImplementation((file) => {
    calls += 1;
    fs.rmSync(file);
    if (calls % 1500 === 0 && fs.existsSync(at('tree/dir'))) {
      fs.renameSync(at('tree/dir'), at(`moved-${calls}`));
      fs.symlinkSync(at('others'), at('tree/dir'));
    }
  });
  await removeTree(at('tree'));
  expect(calls).toBeGreaterThan(1500);
  expect(fs.existsSync(at('tree'))).toBe(false);
  expect(fs.readdirSync(at('others'))).toEqual(['file', 'sub']);
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
