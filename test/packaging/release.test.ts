// A release: what it commits and tags, and what it refuses.
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';

const PROGRAM = path.resolve('packaging/release.mjs');
/** In place of the real ones, which download Node. */
const SCRIPTS = { standalone: 'node archive.mjs' };
const ARCHIVE = `import fs from 'node:fs';
if (fs.existsSync('broken')) throw new Error('no archive');
const [, arch, , to] = process.argv.slice(2);
fs.writeFileSync(\`\${to}/thing-\${arch}.tar.gz\`, arch);`;

let dir: string;
beforeEach(() => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-release-'));
  const manifest = { name: 'thing', version: '0.2.0', scripts: SCRIPTS, files: ['CHANGELOG.md'] };
  fs.writeFileSync(path.join(dir, 'package.json'), JSON.stringify(manifest));
  fs.writeFileSync(path.join(dir, 'archive.mjs'), ARCHIVE);
  fs.writeFileSync(
    path.join(dir, 'CHANGELOG.md'),
    '# Changelog\n\n## Unreleased (0.2.0)\n\n- more\n\n## 0.1.0 (2026-01-02)\n',
  );
  fs.writeFileSync(path.join(dir, '.gitignore'), 'release/\nbroken\n');
  git('init', '--quiet');
  git('config', 'user.name', 'somebody');
  git('config', 'user.email', 'somebody@example.org');
  git('add', '.');
  git('commit', '--quiet', '--message', 'all');
});
afterEach(() => fs.rmSync(dir, { recursive: true, force: true }));

function git(...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: dir, encoding: 'utf8' });
}

const release = (): Promise<unknown> => promisify(execFile)(process.execPath, [PROGRAM], { cwd: dir });
const changelog = (): string => fs.readFileSync(path.join(dir, 'CHANGELOG.md'), 'utf8');

it('dates the changelog, commits it, tags the commit, and sums up what is to be published', async () => {
  await release();
  expect(changelog()).toMatch(/^## 0\.2\.0 \(\d{4}-\d\d-\d\d\)$/m);
  expect(git('log', '-1', '--format=%s', 'v0.2.0')).toBe('release 0.2.0\n');
  expect(git('status', '--porcelain')).toBe('');
  const made = path.join(dir, 'release');
  expect(fs.readdirSync(made).toSorted()).toEqual([
    'SHA256SUMS',
    'thing-0.2.0.tgz',
    'thing-arm64.tar.gz',
    'thing-x64.tar.gz',
  ]);
  execFileSync('sha256sum', ['--check', '--strict', '--quiet', 'SHA256SUMS'], { cwd: made });
});

it('leaves all as it was if an archive cannot be made', async () => {
  fs.writeFileSync(path.join(dir, 'broken'), '');
  await expect(release()).rejects.toThrow('no archive');
  expect(changelog()).toContain('## Unreleased (0.2.0)');
  expect(git('status', '--porcelain')).toBe('');
  expect(git('tag', '--list')).toBe('');
});

it.each<readonly [what: string, spoil: () => void, says: string]>([
  [
    'a change that is not committed',
    () => fs.appendFileSync(path.join(dir, 'CHANGELOG.md'), 'x'),
    'has changes',
  ],
  ['a version that has been released', () => git('tag', 'v0.2.0'), 'v0.2.0 exists'],
  [
    'a changelog without the version',
    () => {
      fs.writeFileSync(path.join(dir, 'CHANGELOG.md'), '# Changelog\n');
      git('commit', '--quiet', '--all', '--message', 'none');
    },
    'has no heading',
  ],
])('refuses %s', async (_, spoil, says) => {
  spoil();
  const tags = git('tag', '--list');
  await expect(release()).rejects.toThrow(says);
  expect(git('tag', '--list')).toBe(tags);
});

it('the citation names the version', () => {
  const { version } = JSON.parse(fs.readFileSync('package.json', 'utf8')) as { readonly version: string };
  expect(fs.readFileSync('CITATION.cff', 'utf8')).toContain(`\nversion: ${version}\n`);
});
