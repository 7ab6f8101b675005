// The package as npm packs it, installed in a directory of its own: as its users have it.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type * as Library from '../../src/library/library.ts';

export interface Installed {
  readonly dir: string;
  readonly library: typeof Library;
  close(): void;
}

/** Packages with binaries, which npm would add. */
const PACKAGES = ['koffi', '@koromix', 'zstd-napi'];

export async function installPackage(): Promise<Installed> {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-library-'));
  const modules = path.join(dir, 'node_modules');
  const own = path.join(modules, 'capture-sidecar');
  fs.mkdirSync(own, { recursive: true });
  // Without its scripts: the build has run.
  const packed = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', dir], {
    encoding: 'utf8',
  });
  const [{ filename = '' } = {}] = JSON.parse(packed) as { filename?: string }[];
  execFileSync('tar', ['-xf', path.join(dir, filename), '--strip-components=1', '-C', own]);
  for (const name of PACKAGES) fs.symlinkSync(path.resolve('node_modules', name), path.join(modules, name));
  fs.writeFileSync(path.join(dir, 'package.json'), '{"type":"module"}');
  const entry = path.join(dir, 'entry.js');
  fs.writeFileSync(entry, "export * from 'capture-sidecar';");
  const library = (await import(/* @vite-ignore */ entry)) as typeof Library;
  return { dir, library, close: () => fs.rmSync(dir, { recursive: true }) };
}
