// Makes a release of the version in package.json: npm run release
// Dates the heading of the changelog, commits, tags, and makes the npm package, the archives and their sums in release/.
// Pushes and publishes nothing: look at release/ first. If a step fails, the commit and the tag are not made.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const RELEASE = 'release';
const CHANGELOG = 'CHANGELOG.md';
const { version } = JSON.parse(readFileSync('package.json', 'utf8'));

const git = (...args) => execFileSync('git', args, { encoding: 'utf8' }).trim();
const npm = (...args) => execFileSync('npm', args, { stdio: ['ignore', 'inherit', 'inherit'] });

if (git('status', '--porcelain') !== '') throw new Error('the working copy has changes: commit them first');
if (git('tag', '--list', `v${version}`) !== '')
  throw new Error(`v${version} exists: write the next version into package.json and ${CHANGELOG}`);
const heading = `## Unreleased (${version})`;
const before = readFileSync(CHANGELOG, 'utf8');
if (!before.includes(`\n${heading}\n`)) throw new Error(`${CHANGELOG} has no heading "${heading}"`);

writeFileSync(CHANGELOG, before.replace(heading, `## ${version} (${new Date().toISOString().slice(0, 10)})`));
try {
  rmSync(RELEASE, { recursive: true, force: true });
  mkdirSync(RELEASE);
  for (const arch of ['x64', 'arm64']) npm('run', 'standalone', '--', '--arch', arch, '--to', RELEASE);
  npm('pack', '--pack-destination', RELEASE);
  const sums = readdirSync(RELEASE)
    .filter((name) => !name.endsWith('.sha256'))
    .toSorted()
    .map(
      (name) =>
        `${createHash('sha256')
          .update(readFileSync(path.join(RELEASE, name)))
          .digest('hex')}  ${name}\n`,
    );
  writeFileSync(path.join(RELEASE, 'SHA256SUMS'), sums.join(''));
  git('commit', '--quiet', '--message', `release ${version}`, CHANGELOG);
} catch (error) {
  writeFileSync(CHANGELOG, before);
  throw error;
}
git('tag', '--annotate', `v${version}`, '--message', `capture ${version}`);
process.stdout.write(
  `v${version} is committed and tagged; ${RELEASE}/ holds what to publish, and SHA256SUMS\n`,
);
