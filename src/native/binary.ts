// The binaries of the three packages that the programs do not contain, by their files. Nothing else of node_modules is
// ever loaded, and Node is never asked where a package is: it looks in every directory above, in ~/.node_modules and in
// NODE_PATH, and whoever may write to one of these would have code of theirs run.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { CaptureError, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';

const { platform, arch } = process;

/** Files below node_modules, for one libc after the other, then as npm builds them where there is no ready one. */
const BINARIES = {
  koffi: [
    `@koromix/koffi-${platform}-${arch}/${platform}_${arch}/koffi.node`,
    `@koromix/koffi-${platform}-${arch}/musl_${arch}/koffi.node`,
    `koffi/build/koffi/${platform}_${arch}/koffi.node`,
  ],
  'zstd-napi': ['zstd-napi/build/Release/binding.node'],
  '@parcel/watcher': [
    `@parcel/watcher-${platform}-${arch}-glibc/watcher.node`,
    `@parcel/watcher-${platform}-${arch}-musl/watcher.node`,
    '@parcel/watcher/build/Release/watcher.node',
  ],
} as const;

/**
 * What the binary of a package exports. One open, where the package's own loader takes seven: thousands of tasks start at
 * once on one shared file system.
 * @throws CaptureError if none is there, or none is for this machine.
 */
export function loadBinary(name: keyof typeof BINARIES): unknown {
  let why = `no binary of it is in ${packageDirs().join(' or ')}`;
  for (const dir of placesOf(name)) {
    for (const file of BINARIES[name]) {
      const binary = path.join(dir, file);
      if (!fs.existsSync(binary)) continue;
      const module: { readonly exports: unknown } = { exports: {} };
      try {
        // As require does, which would also open the package.json of whoever asks.
        process.dlopen(module, binary);
        return module.exports;
      } catch (error) {
        why = reasonOf(error); // of another libc
      }
    }
  }
  const hint = 'install capture again on this machine: npm ci, or npm install --global';
  throw new CaptureError(EXIT.internal, `cannot load ${name}: ${why}`, { hint });
}

/** In the installation: our own packages, and if we are one of several packages ourselves, the others. */
function packageDirs(): readonly string[] {
  const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), CAPTURE_ROOT);
  const beside = path.dirname(root);
  return [path.join(root, 'node_modules'), ...(path.basename(beside) === 'node_modules' ? [beside] : [])];
}

function* placesOf(name: string): Iterable<string> {
  for (const dir of packageDirs()) {
    yield dir;
    // With pnpm a package is a link, and what it needs stands beside that to which the link leads.
    const real = realPath(path.join(dir, name));
    if (real?.endsWith(`/${name}`) === true) yield real.slice(0, -name.length);
  }
}

function realPath(file: string): string | undefined {
  try {
    return fs.realpathSync(file);
  } catch {
    return undefined; // it is not installed
  }
}
