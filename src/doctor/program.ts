// capture's own requirements: the system, Node, and the packages with binaries. Loads each package, as a run would.
import os from 'node:os';
import { reasonOf } from '../model/errors.ts';
import { bindLibc } from '../native/libc.ts';
import { loadParcel } from '../native/parcel.ts';
import { NO_ZSTD_HINT } from '../native/zstd.ts';
import { loadCompressor } from '../read/encode.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

/** The packages with binaries, as a test may replace them. */
export interface Packages {
  /** Throws if koffi cannot call libc. */
  readonly libc: () => void;
  readonly compressor: () => Promise<'zstd-napi' | 'zlib' | undefined>;
  /** Throws if the fallback watcher cannot be loaded. */
  readonly portableWatcher: () => unknown;
}

export const thesePackages: Packages = {
  libc: () => void bindLibc('int getpid()'),
  compressor: async () => (await loadCompressor())?.name,
  portableWatcher: loadParcel,
};

/** What needs the system calls that Node lacks. */
const UNCHECKED = 'inotify, leases and a store that is a directory';
const INSTALL = 'install capture again on this machine: npm ci (docs: README, "Install")';

export async function* examineProgram(packages: Packages): AsyncGenerator<Finding> {
  yield system();
  yield libc(packages);
  yield await zstd(packages);
  const watcher = portableWatcher(packages);
  if (watcher !== undefined) yield watcher;
}

function system(): Finding {
  const { version, arch, versions } = process;
  const { glibcVersionRuntime: glibc } = (process.report.getReport() as unknown as NodeReport).header;
  const libc = glibc === undefined ? 'no glibc' : `glibc ${glibc}`;
  const says = `Node ${version.slice(1)}, Linux ${os.release()}, ${arch}, ${libc}, capture ${CAPTURE_VERSION}`;
  const facts = { node: versions.node, kernel: os.release(), arch, glibc: glibc ?? '' };
  if (arch === 'x64' && glibc !== undefined) return ok('system', says, facts);
  return warn(
    'system',
    says,
    'capture is tested on x64 with glibc: try it here with a small job first',
    facts,
  );
}

interface NodeReport {
  readonly header: { readonly glibcVersionRuntime?: string };
}

function libc({ libc: call }: Packages): Finding {
  try {
    call();
    return ok('koffi', 'the system calls that Node lacks work');
  } catch (error) {
    return fail('koffi', `${reasonOf(error)}: no task starts, and ${UNCHECKED} cannot be checked`, INSTALL);
  }
}

async function zstd({ compressor }: Packages): Promise<Finding> {
  const name = await compressor();
  const facts = { compressor: name ?? 'none' };
  switch (name) {
    case 'zstd-napi':
      return ok('zstd', 'zstd-napi compresses', facts);
    case 'zlib':
      return ok('zstd', "Node's own compresses", facts);
    case undefined:
      return warn(
        'zstd',
        'none: files are stored uncompressed, and no compressed checkpoint or input can be restored',
        NO_ZSTD_HINT,
        facts,
      );
  }
}

/** It is needed only if inotify is exhausted: no line unless it is missing. */
function portableWatcher({ portableWatcher: load }: Packages): Finding | undefined {
  try {
    load();
    return undefined;
  } catch (error) {
    const says = `${reasonOf(error)}: without inotify only scans find files`;
    return warn('portable watcher', says, `where inotify runs out, ${INSTALL}`);
  }
}
