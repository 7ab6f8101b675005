import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { emptyDirectory, removeTree } from '../../src/native/remove-tree.ts';
import { bundle } from '../support/bundle.ts';
import { asNobody, NOBODY } from '../support/other-user.ts';
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

/** Runs as a user without root's rights. */
async function removeAsUser(name: string): Promise<ReturnType<typeof spawnSync>> {
  const program = await bundle('test/native/fixtures/remove-tree.ts', dir.path);
  const user = process.getuid?.() === 0 ? asNobody : {};
  if (process.getuid?.() === 0) spawnSync('chown', ['-R', `${NOBODY}:${NOBODY}`, at(name)]);
  fs.chmodSync(dir.path, 0o777);
  return spawnSync(process.execPath, [program, at(name)], { encoding: 'utf8', cwd: dir.path, ...user });
}

it('removes directories that their owner may not read, enter or write in', async () => {
  for (const [mode, name] of ['tree/0', 'tree/555/a', 'tree/333/a/b', 'tree/444/a/b/c'].entries()) {
    fs.mkdirSync(at(`${name}/deep/deeper`), { recursive: true });
    fs.writeFileSync(at(`${name}/deep/deeper/file`), 'x');
    for (const one of ['/deep/deeper', '/deep', ''])
      fs.chmodSync(at(name + one), [0, 0o555, 0o333, 0o444][mode] ?? 0);
  }
  const { status, stderr } = await removeAsUser('tree');
  expect(status, String(stderr)).toBe(0);
  expect(fs.existsSync(at('tree'))).toBe(false);
});

it.runIf(process.getuid?.() === 0)(
  'removes all but what another user has put there, and then says why',
  async () => {
    for (const name of ['a', 'm', 'm/inner', 'z']) {
      fs.mkdirSync(at(`tree/${name}/of-us`), { recursive: true });
      fs.writeFileSync(at(`tree/${name}/of-us/file`), 'x');
    }
    spawnSync('chown', ['-R', `${NOBODY}:${NOBODY}`, at('tree')]);
    fs.mkdirSync(at('tree/m/inner/of-another'));
    fs.writeFileSync(at('tree/m/inner/of-another/file'), 'x');
    const program = await bundle('test/native/fixtures/remove-tree.ts', dir.path);
    fs.chmodSync(dir.path, 0o777);
    const { status, stderr } = spawnSync(process.execPath, [program, at('tree')], {
      ...asNobody,
      encoding: 'utf8',
      cwd: dir.path,
    });
    expect(status).not.toBe(0);
    expect(stderr).toContain('EACCES');
    const left = fs.readdirSync(at('tree'), { recursive: true, encoding: 'utf8' });
    expect(left.filter((name) => name.endsWith('file'))).toEqual([
      expect.stringMatching(/of-another|-.*\/file/),
    ]);
  },
);

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
