// The Nodes that are maintained, beside the oldest one that runs these tests: as the packages of npm that hold
// nothing but their binary, kept between runs.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

export const ROOT = path.resolve(import.meta.dirname, '../..');
/** Both have zstd in node:zlib. */
export const NEWER_NODES = ['22', '24'] as const;

const PACKAGE = `node-linux-${process.arch}`;

/** An environment in which `node` is the newest of this major version; `undefined` is the one that runs this. */
export async function withNode(major: string | undefined): Promise<NodeJS.ProcessEnv> {
  const { PATH, HOME, LANG, TMPDIR } = process.env;
  const bin = major === undefined ? path.dirname(process.execPath) : await installed(major);
  return { PATH: `${bin}:${PATH ?? ''}`, HOME, LANG, TMPDIR };
}

async function installed(major: string): Promise<string> {
  const dir = path.join(ROOT, 'node_modules/.cache/capture-test', `node-${major}`);
  const bin = path.join(dir, 'node_modules', PACKAGE, 'bin');
  if (!fs.existsSync(path.join(bin, 'node'))) {
    fs.mkdirSync(dir, { recursive: true });
    const words = ['install', '--no-save', '--no-package-lock', '--prefix', dir, `${PACKAGE}@${major}`];
    await promisify(execFile)('npm', words, { cwd: dir });
  }
  return bin;
}
