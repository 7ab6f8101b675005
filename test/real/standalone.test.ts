// The archive that needs nothing but Linux: in the root of an old Debian, without Node, npm and a compiler, read-only, as
// an ordinary user; and in the image that the Containerfile makes of it, in containers of a real engine.
import { execFile, execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { realStore } from './bucket.ts';
import { ROOT } from './nodes.ts';
import { containersIn, SIMULATE, type Spec } from './pod.ts';

const execute = promisify(execFile);
/** The oldest that Debian's mirrors have: glibc 2.31. */
const SUITE = 'bullseye';
/** Of the store of these tests. */
const STORE_VARIABLES = ['AWS_ENDPOINT_URL', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_REGION'];
/** Of RHEL 8: 2.28. */
const NEWEST_MINOR_OF_GLIBC_2 = 28;
const MINUTES = 60_000;

let dir: string;
let top: string;
let root: string;
beforeAll(async () => {
  // Not in memory: roots are large, and debootstrap makes devices.
  dir = fs.mkdtempSync('/var/tmp/capture-standalone-');
  fs.chmodSync(dir, 0o755);
  await run(process.execPath, ['packaging/standalone.mjs', '--to', path.join(dir, 'release')]);
  await run('tar', ['-xzf', archive('.tar.gz'), '-C', dir]);
  top = path.join(dir, path.basename(archive('.tar.gz'), '.tar.gz'));
  root = path.join(dir, SUITE);
  await run('debootstrap', ['--variant=minbase', SUITE, root]);
}, 5 * MINUTES);
afterAll(() => fs.rmSync(dir, { recursive: true, force: true }));

async function run(command: string, args: readonly string[], cwd = ROOT): Promise<string> {
  const { stdout } = await execute(command, args, { cwd, maxBuffer: 1 << 24 });
  return stdout;
}

function archive(ending: string): string {
  const release = path.join(dir, 'release');
  const name = fs.readdirSync(release).find((one) => one.endsWith(ending));
  if (name === undefined) throw new Error(`no file *${ending} was made`);
  return path.join(release, name);
}

function binaries(): readonly string[] {
  const all = fs.readdirSync(top, { recursive: true, encoding: 'utf8' }).map((name) => path.join(top, name));
  return all.filter(
    (file) =>
      fs.statSync(file).isFile() && fs.readFileSync(file).subarray(0, 4).toString('latin1') === '\x7fELF',
  );
}

describe('the archives', () => {
  it('have the sums that are beside them, and the same content', async () => {
    await run('sha256sum', ['--check', '--strict', archive('.sha256')], path.join(dir, 'release'));
    const unpack = `
      const [file, method] = process.argv.slice(1);
      const tar = require('node:zlib')[method](require('node:fs').readFileSync(file));
      console.log(require('node:crypto').createHash('sha256').update(tar).digest('hex'));`;
    const own = path.join(top, 'node/bin/node');
    const zst = await run(own, ['-e', unpack, archive('.tar.zst'), 'zstdDecompressSync']);
    expect(zst).toBe(await run(own, ['-e', unpack, archive('.tar.gz'), 'gunzipSync']));
  });

  it('need no newer glibc than that of RHEL 8', async () => {
    const files = binaries();
    expect(files.map((file) => path.basename(file)).toSorted()).toEqual([
      'koffi.node',
      'node',
      'watcher.node',
    ]);
    for (const file of files) {
      const shown = await run('readelf', ['--wide', '--version-info', file]);
      const needed = [...shown.matchAll(/\bGLIBC_2\.(\d+)/g)].map(([, minor]) => Number(minor));
      expect(needed.length, file).toBeGreaterThan(0);
      expect(Math.max(...needed), file).toBeLessThanOrEqual(NEWEST_MINOR_OF_GLIBC_2);
    }
  });

  it('list all that is inside, and carry its licences', () => {
    const sbom = JSON.parse(fs.readFileSync(path.join(top, 'sbom.cdx.json'), 'utf8')) as {
      readonly components: readonly { readonly name: string; readonly version: string }[];
    };
    const listed = new Set(sbom.components.map(({ name, version }) => `${name} ${version}`));
    const notices = fs.readFileSync(path.join(top, 'dist/THIRD-PARTY-NOTICES'), 'utf8');
    const titles = [...notices.matchAll(/^(\S+ \d\S*) \([^)]+\)$/gm)].map(([, title = '']) => title);
    expect(titles.length).toBeGreaterThan(200);
    expect(titles.filter((title) => !listed.has(title))).toEqual([]);
    for (const file of binaries()) {
      const places = [path.dirname(file), path.join(path.dirname(file), '..')];
      expect(
        places.some((place) => fs.existsSync(path.join(place, 'LICENSE'))),
        file,
      ).toBe(true);
    }
  });
});

function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

it('Lmod loads and unloads the archive where it lies', async () => {
  const script = `. /usr/share/lmod/lmod/init/bash; module use ${top}/share/modulefiles
    module load capture; command -v capture; capture --version
    module unload capture; command -v capture || echo gone`;
  const shown = await run('env', ['-i', 'HOME=/tmp', 'PATH=/usr/bin:/bin', 'bash', '-c', script]);
  expect(shown).toMatch(/^\S+\/bin\/capture\n\d+\.\d+\.\d+\ngone\n$/);
  expect(shown).toContain(`${top}/`);
});

/** Only a home directory, /tmp and /dev/shm can be written in this root. */
const MOUNTS = `
  root=$1 top=$2; shift 2
  mkdir -p "$root/opt/capture"
  mount --bind "$root" "$root"
  mount -o remount,bind,ro "$root"
  mount --bind "$top" "$root/opt/capture"
  mount -o remount,bind,ro "$root/opt/capture"
  mount -t proc proc "$root/proc"
  mount --bind /dev "$root/dev"
  for writable in home tmp dev/shm; do mount -t tmpfs -o mode=1777 tmpfs "$root/$writable"; done
  mkdir -m 700 "$root/home/user"
  chown 1000:1000 "$root/home/user"
  exec chroot --userspec=1000:1000 "$root" "$@"`;

describe(`in a root of ${SUITE}`, () => {
  /** What a script prints there. */
  function inRoot(script: string): Promise<string> {
    const variables = STORE_VARIABLES.map((name) => `${name}=${process.env[name]}`);
    const inside = [
      'env',
      '-i',
      'HOME=/home/user',
      'PATH=/usr/bin:/bin',
      ...variables,
      'bash',
      '-euc',
      script,
    ];
    return run('unshare', ['--mount', 'bash', '-euc', MOUNTS, 'mounts', root, top, ...inside]);
  }

  it(
    'runs the demo without Node, npm, a compiler and Python, and writes nothing beside itself',
    async () => {
      const shown = await inRoot(`
      for program in node npm cc gcc python3; do if command -v $program; then exit 1; fi; done
      if touch /opt/capture/written 2>/dev/null; then exit 1; fi
      cd; exec /opt/capture/examples/demo/demo.sh`);
      expect(shown).toMatch(/^identical: final\.dat$/m);
    },
    3 * MINUTES,
  );

  it(
    'runs a task on S3, an array, and the commands that look at both',
    async () => {
      const store = `${realStore().url}/standalone`;
      const shown = await inRoot(`
      cd; PATH=$PATH:/opt/capture/bin; export CAPTURE_TO=${store} CAPTURE_TASK_NAME=t
      mkdir work
      (cd work && capture --index=0 -r r.dat -- sh -c 'seq 100000 >r.dat')
      capture array --array=1-3 -r r.dat -- sh -c 'seq 100000 >r.dat'
      capture status ${store} --array=0-3
      capture gather ${store} gathered --array=0-3
      capture report ${store} --array=0-3 --output=report.html
      grep -c '<html' report.html
      (cd gathered && md5sum */r.dat | cut -c1-32 | sort | uniq -c)`);
      expect(shown).toMatch(/^ +4 [0-9a-f]{32}$/m);
    },
    3 * MINUTES,
  );
});

describe('the image', () => {
  const IMAGE = 'localhost/capture';
  const ENV = ['--env', 'JOB_COMPLETION_INDEX=3'];
  let storage: readonly string[];
  let pod: string;
  beforeAll(async () => {
    storage = [
      '--storage-driver',
      'vfs',
      '--root',
      path.join(dir, 'images'),
      '--runroot',
      path.join(dir, 'run'),
    ];
    const context = path.join(dir, 'context');
    fs.cpSync(path.join(dir, 'release'), path.join(context, 'release'), { recursive: true });
    fs.copyFileSync(path.join(ROOT, 'Containerfile'), path.join(context, 'Containerfile'));
    const base = await buildah('from', 'scratch');
    await buildah('add', '--quiet', base, root, '/');
    await buildah('commit', '--quiet', base, 'localhost/base');
    await buildah(
      'build',
      '--isolation',
      'chroot',
      '--build-arg',
      'BASE=localhost/base',
      '-t',
      IMAGE,
      context,
    );
  }, 5 * MINUTES);
  beforeEach(() => {
    pod = fs.mkdtempSync(path.join(dir, 'pod-'));
    for (const name of ['scratch', 'store']) fs.mkdirSync(path.join(pod, name));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', path.join(pod, 'scratch')]);
    fs.chmodSync(path.join(pod, 'store'), 0o1777);
  });
  afterEach(() => void execFileSync('umount', [path.join(pod, 'scratch')]));

  async function buildah(...args: readonly string[]): Promise<string> {
    const shown = await run('buildah', [...storage, ...args]);
    return shown.trim();
  }

  /** A container of the image; resolves to its output when it ends with 0. */
  async function inContainer(
    command: readonly string[],
    { container, user }: { readonly container?: string; readonly user?: string } = {},
  ): Promise<string> {
    const volumes = ['scratch', 'store'].flatMap((name) => ['--volume', `${path.join(pod, name)}:/${name}`]);
    const as = user === undefined ? [] : ['--user', user];
    const one = container ?? (await buildah('from', IMAGE));
    return buildah('run', '--isolation', 'chroot', ...ENV, ...volumes, ...as, one, '--', ...command);
  }

  it(
    'starts capture as its entry point, as nobody in particular, which runs the task',
    async () => {
      const described = JSON.parse(await buildah('inspect', '--type', 'image', IMAGE)) as {
        readonly OCIv1: {
          readonly config: { readonly Entrypoint: readonly string[]; readonly User: string };
        };
      };
      const { Entrypoint: entry, User: user } = described.OCIv1.config;
      expect(user).toBe('65532:65532');
      await inContainer([...entry, '--to', '/store', '-r', 'r.dat', '--', 'sh', '-c', 'id -u >r.dat']);
      expect(fs.readFileSync(path.join(pod, 'store/r.dat.3'), 'utf8')).toBe('65532\n');
    },
    2 * MINUTES,
  );

  it.each(['native-sidecar.yaml', 'second-container.yaml'])(
    '%s stores what another container of the pod makes',
    async (name) => {
      fs.writeFileSync(path.join(pod, 'store/in.dat'), 'input\n', { mode: 0o644 });
      const specs = containersIn(name, (word) =>
        word
          .replace('s3://my-bucket/sim/$(SUBMISSION)', '/store/run')
          .replace('s3://my-bucket/sim', '/store'),
      );
      const user = '1000:1000';
      const capture = (spec: Spec | undefined): readonly string[] => ['capture', ...(spec?.args ?? [])];
      await inContainer(capture(specs['restore']), { user });
      const container = await buildah('from', IMAGE);
      const sidecar = inContainer(capture(specs['capture']), { container, user });
      const probe = specs['capture']?.startupProbe?.exec.command ?? ['true'];
      // As a kubelet: again and again, until it ends with 0.
      for (let tries = 1; !(await succeeds(inContainer(probe, { container, user }))); tries++)
        expect(tries, 'tries of the startup probe').toBeLessThan(30);
      fs.writeFileSync(path.join(pod, 'scratch/simulate'), SIMULATE, { mode: 0o755 });
      const task = specs['task']?.command ?? [];
      await inContainer(['env', 'PATH=/scratch:/usr/bin:/bin', ...task], { user });
      await sidecar;
      const stored = fs.readdirSync(path.join(pod, 'store/run'));
      for (const frame of [10, 20, 30, 40]) expect(stored).toContain(`frame.${frame}.dat.3`);
    },
    3 * MINUTES,
  );
});
