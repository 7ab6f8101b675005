// One large file through a worker thread and through the store's seal, with keys of age and of gpg, as a run sends it, and
// the same without --encrypt: beside md5 and zstd-1 alone, and beside `age` and `gpg`, each alone, on the compressed file.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import zstd from 'zstd-napi/binding.js';
import { bundle } from '../lib/bundle.mjs';
import { blocks, MiB } from '../lib/content.mjs';
import { freshDir } from '../lib/running.mjs';

export const seal = {
  name: 'seal',
  title: 'One large file, sealed and not',
  rounds: 3,
  tools: ['capture'],
  columns: [
    { key: 'sealedMibPerS', title: 'sealed, MiB/s' },
    { key: 'byGpgMibPerS', title: 'sealed by gpg, MiB/s' },
    { key: 'plainMibPerS', title: 'not sealed, MiB/s' },
    { key: 'floorMibPerS', title: 'md5 and zstd-1 alone, MiB/s' },
    { key: 'speedPercent', title: 'sealed, of md5 and zstd-1 alone', unit: '%' },
    { key: 'sealedCpuS', title: 'CPU, sealed', unit: 's' },
    { key: 'plainCpuS', title: 'CPU, not sealed', unit: 's' },
    { key: 'ageS', title: 'age alone, of what zstd has made', unit: 's' },
    { key: 'gpgS', title: 'gpg alone, of the same', unit: 's' },
  ],
  cases: (size) => {
    const mib = { tiny: 1, usual: 512, large: 1024 }[size];
    // What does not compress is sealed as it is.
    return ['float64', 'random'].map((kind) => ({ name: `${mib} MiB, ${kind}`, kind, mib }));
  },
  measure: async ({ item: { kind, mib } }) => {
    const out = await bundle(
      'src/read/worker.ts',
      'src/read/workers.ts',
      'src/seal/age.ts',
      'src/seal/payload.ts',
      'src/seal/gpg.ts',
    );
    const load = (name) => import(path.join(out, `${name}.mjs`));
    const [{ openWorkers }, age, payload, { Gpg }] = await Promise.all(
      ['workers', 'age', 'payload', 'gpg'].map(load),
    );
    const dir = freshDir();
    const file = path.join(dir, 'k.chk');
    const fd = fs.openSync(file, 'w');
    for (const block of blocks({ kind, seed: 1, sizeBytes: mib * MiB })) fs.writeSync(fd, block);
    fs.closeSync(fd);
    const root = { fd: fs.openSync(dir, 'r'), path: dir };
    const entry = path.join(out, 'worker.mjs');
    const workers = openWorkers({ root, count: 2, entry, smallBytes: 0, spoolLimitBytes: 0 });
    try {
      const recipient = await age.recipientOf(await age.newIdentity());
      const sealed = async (parts, release) =>
        payload.sealParts(parts, await age.newFileHeader([recipient]), release);
      // The first time starts a thread.
      await through(workers);
      const plain = await timed(() => through(workers));
      const own = await timed(() => through(workers, sealed));
      const stored = path.join(dir, 'stored');
      const byGpg = await sealedByGpg(Gpg, (sealedParts) => timed(() => through(workers, sealedParts)));
      const floor = await timed(() => md5AndZstd(file, stored));
      return {
        sealedMibPerS: mib / own.seconds,
        byGpgMibPerS: byGpg && mib / byGpg.seconds,
        plainMibPerS: mib / plain.seconds,
        floorMibPerS: mib / floor.seconds,
        speedPercent: (100 * floor.seconds) / own.seconds,
        sealedCpuS: own.cpuS,
        plainCpuS: plain.cpuS,
        ageS: await alone('age', ['-r', recipient, '-o', '/dev/null', stored]),
        gpgS: await alone('gpg', gpgWords(dir, stored)),
      };
    } finally {
      await workers.close();
      fs.closeSync(root.fd);
      fs.rmSync(dir, { recursive: true });
    }
  },
};

/** With a key of its own, in a directory whose name leaves room for a socket. Undefined if gpg is not installed. */
async function sealedByGpg(Gpg, measure) {
  const home = fs.mkdtempSync('/tmp/gpg-');
  const env = { ...process.env, GNUPGHOME: home };
  const words =
    '--batch --quiet --passphrase= --quick-gen-key bench@lab.example future-default default never';
  try {
    execFileSync('gpg', words.split(' '), { env, stdio: 'ignore' });
  } catch (error) {
    fs.rmSync(home, { recursive: true });
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    const gpg = new Gpg(env);
    const to = [await gpg.recipientOf('gpg:bench@lab.example', new AbortController().signal)];
    return await measure((parts, release) => gpg.sealParts(parts, to, { release }));
  } finally {
    execFileSync('gpgconf', ['--kill', 'all'], { env, stdio: 'ignore' });
    fs.rmSync(home, { recursive: true });
  }
}

async function through(workers, sealed) {
  const compression = { kind: 'zstd', level: 1 };
  const body = await workers.read({ path: 'k.chk', compression, spoolFirst: false });
  const parts = sealed === undefined ? body.parts : await sealed(body.parts, body.parts.release);
  for await (const part of parts) if (sealed === undefined) body.parts.release(part);
  await body.parts.return();
  await body.done;
}

/** What no run can leave out, on one thread, and what `age` and `gpg` get. */
function md5AndZstd(file, stored) {
  const context = new zstd.CCtx();
  context.setParameter(zstd.CParameter.compressionLevel, 1);
  const [input, output] = [new Uint8Array(MiB), new Uint8Array(2 * MiB)];
  const md5 = createHash('md5');
  const [source, to] = [fs.openSync(file, 'r'), fs.openSync(stored, 'w')];
  const compress = (chunk, directive) => {
    fs.writeSync(to, output, 0, context.compressStream2(output, chunk, directive)[1]);
  };
  for (let bytes = fs.readSync(source, input); bytes > 0; bytes = fs.readSync(source, input)) {
    md5.update(input.subarray(0, bytes));
    compress(input.subarray(0, bytes), zstd.EndDirective.continue);
  }
  compress(new Uint8Array(0), zstd.EndDirective.end);
  md5.digest();
  fs.closeSync(source);
  fs.closeSync(to);
}

/** With a passphrase: no key must be made first, and the payload costs the same. */
function gpgWords(home, stored) {
  const words = `--homedir ${home} --batch --pinentry-mode loopback --passphrase x --compress-algo none --symmetric -o`;
  return words.split(' ').concat(path.join(home, 'stored.gpg'), stored);
}

/** Undefined if it is not installed. */
async function alone(program, args) {
  try {
    return (await timed(() => execFileSync(program, args, { stdio: 'ignore' }))).seconds;
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

async function timed(work) {
  const startMs = performance.now();
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return { seconds: (performance.now() - startMs) / 1000, cpuS: (user + system) / 1e6 };
}
