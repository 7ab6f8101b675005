// node licences/board-ui.mjs: writes board-ui.txt, the notices of what the page of @bull-board/ui contains. That comes as
// one bundle, and only its package.json names what it was made of: so that is installed, and bundled once more.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import { boardUi, noticesOf, packagesIn } from './licences.mjs';

/** What only tests or builds the page. */
const TOOLS =
  /^(?:@types|@rsbuild|@rsdoctor|@testing-library)\/|jest|^identity-obj-proxy$|^i18next-(?:hmr|locales)|^typescript/;

const { devDependencies } = createRequire(import.meta.url)('@bull-board/ui/package.json');
const dependencies = Object.fromEntries(
  Object.entries(devDependencies).filter(([name]) => !TOOLS.test(name)),
);
const target = new URL('board-ui.txt', import.meta.url);
const dir = mkdtempSync(path.join(os.tmpdir(), 'capture-licences-'));
try {
  process.chdir(dir);
  writeFileSync('package.json', JSON.stringify({ private: true, dependencies }));
  execFileSync('npm', ['install', '--ignore-scripts', '--legacy-peer-deps', '--no-audit', '--no-fund'], {
    stdio: 'inherit',
  });
  const all = Object.keys(dependencies).map((name, nth) => `export * as all${nth} from '${name}';`);
  writeFileSync('all.js', all.join('\n'));
  const { metafile } = await build({
    absWorkingDir: dir,
    entryPoints: ['./all.js'],
    outdir: 'out',
    write: false,
    metafile: true,
    bundle: true,
    format: 'esm',
    platform: 'browser',
  });
  writeFileSync(target, `${boardUi()}\n\n${noticesOf(packagesIn([metafile]))}`);
} finally {
  process.chdir('/');
  rmSync(dir, { recursive: true });
}
