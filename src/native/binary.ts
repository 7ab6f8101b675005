// Loads the native binaries of the packages that are not bundled, by file name. Nothing else of node_modules is ever
// loaded, and Node never resolves a package: it would look in every directory above, in ~/.node_modules and in
// NODE_PATH, and anyone who may write to one of them could have code of their own run.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { CaptureError, REINSTALL, reasonOf } from '../model/errors.ts';
import { EXIT } from '../model/exit-status.ts';

const { platform, arch } = process;

/** Candidate files below node_modules, in order: ready for glibc, ready for musl, compiled by npm. */
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

/** There is no binary, or none fits this machine. */
export class NoBinaryError extends CaptureError {
  /** By its name: without this, every CaptureError would be one. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return value instanceof Error && value.name === 'NoBinaryError';
  }

  constructor(name: string, why: string) {
    super(EXIT.internal, `cannot load ${name}: ${why}`, { hint: REINSTALL });
    this.name = 'NoBinaryError';
  }
}

/**
 * The exports of a package's binary. This opens one file, where the package's own loader opens seven: thousands of
 * tasks may start at once on one shared file system.
 * @throws NoBinaryError
 */
export function loadBinary(name: keyof typeof BINARIES): unknown {
  let why: string | undefined;
  for (const dir of placesOf(name)) {
    for (const file of BINARIES[name]) {
      const binary = path.join(dir, file);
      if (!fs.existsSync(binary)) continue;
      const module: { readonly exports: unknown } = { exports: {} };
      try {
        // As require() does, which would also open the package.json of its caller.
        process.dlopen(module, binary);
        return module.exports;
      } catch (error) {
        why ??= reasonOf(error); // damaged, or built for another libc
      }
    }
  }
  why ??= `no binary of it is in ${packageDirs().join(' or ')}`;
  throw new NoBinaryError(name, why);
}

/** Our own node_modules and, if capture is itself an installed package, the node_modules that contains it. */
function packageDirs(): readonly string[] {
  const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), CAPTURE_ROOT);
  const beside = path.dirname(root);
  return [path.join(root, 'node_modules'), ...(path.basename(beside) === 'node_modules' ? [beside] : [])];
}

function* placesOf(name: string): Iterable<string> {
  for (const dir of packageDirs()) {
    yield dir;
    // With pnpm a package is a link, and its dependencies are beside the target of that link.
    const real = realPath(path.join(dir, name));
    if (real?.endsWith(`/${name}`) === true) yield real.slice(0, -name.length);
  }
}

function realPath(file: string): string | undefined {
  try {
    return fs.realpathSync(file);
  } catch {
    return undefined; // not installed
  }
}
