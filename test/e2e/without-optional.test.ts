// capture as it is installed without its optional packages, where none has a ready binary and there is no compiler. What
// can be compressed then depends on the Node that runs it (22.15 on has zstd itself).
import fs from 'node:fs';
import path from 'node:path';
import zlib from 'node:zlib';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { BIN, openPlace, type Place, type Run } from './support.ts';

const PROJECT = path.resolve(import.meta.dirname, '../..');
const OPTIONAL = new Set(['zstd-napi', '@parcel']);
const NODE_HAS_ZSTD = 'createZstdCompress' in zlib;
const DECLARED = '--index 3 --task-name sim -r final.dat -k state.chk --again-status 75'.split(' ');
const FIRST = 'seq 20000 >state.chk; seq 30000 >final.dat; exit 75';
const NEXT = 'seq 20000 | cmp - state.chk';
const env = { CAPTURE_NODE: process.execPath };

let place: Place;
beforeEach(() => {
  place = openPlace();
  installWithoutOptional(path.join(place.dir, 'installed'));
});
afterEach(() => place.close());

/** Native packages are found from where a link leads, and the optional ones from nowhere. */
function installWithoutOptional(dir: string): void {
  fs.mkdirSync(path.join(dir, 'node_modules'), { recursive: true });
  for (const name of ['bin', 'dist', 'package.json'])
    fs.cpSync(path.join(PROJECT, name), path.join(dir, name), { recursive: true });
  for (const name of fs.readdirSync(path.join(PROJECT, 'node_modules'))) {
    if (OPTIONAL.has(name) || name.startsWith('.')) continue;
    fs.symlinkSync(path.join(PROJECT, 'node_modules', name), path.join(dir, 'node_modules', name));
  }
}

const installed = (script: string): Run => {
  const bin = path.join(place.dir, 'installed/bin/capture');
  return place.exec([bin, '--to', place.store, ...DECLARED, '--', 'sh', '-c', script], env);
};

const timesSaid = (run: Run, text: string): number => run.stderr().split(text).length - 1;

it('a run without its optional packages compresses with Node’s own zstd, or says once that it stores uncompressed, and the next one resumes', async () => {
  const first = installed(FIRST);
  expect(await first.status, first.stderr()).toBe(75);
  expect(timesSaid(first, 'no zstd here: files are stored uncompressed')).toBe(NODE_HAS_ZSTD ? 0 : 1);
  const ending = NODE_HAS_ZSTD ? '.zst' : '';
  expect(place.keys()).toContain(`final.dat.3${ending}`);
  expect(place.text(`final.dat.3${ending}`)).toMatch(/^1\n2\n[^]*\n30000\n$/);

  place.freshWork();
  const second = installed(NEXT);
  expect(await second.status, second.stderr()).toBe(0);
});

it('capture doctor says what is lost without @parcel/watcher', async () => {
  const bin = path.join(place.dir, 'installed/bin/capture');
  const doctor = place.exec([bin, 'doctor'], env);
  await doctor.status;
  expect(doctor.stdout()).toMatch(
    /portable watcher: cannot load @parcel\/watcher: .*: without inotify only scans find files/,
  );
});

it.runIf(NODE_HAS_ZSTD)('what Node’s own zstd stored is restored with zstd-napi', async () => {
  expect(await installed(FIRST).status).toBe(75);
  place.freshWork();
  const second = place.run(DECLARED, ['sh', '-c', NEXT], env);
  expect(await second.status, second.stderr()).toBe(0);
});

it.skipIf(NODE_HAS_ZSTD)(
  'a restore without any zstd names that as the reason and starts no task',
  async () => {
    const twoSets = `seq 7 20000 >state.chk; "$0" flush; ${FIRST}`;
    const first = place.run(DECLARED, ['sh', '-c', twoSets, BIN], env);
    expect(await first.status, first.stderr()).toBe(75);

    place.freshWork();
    const second = installed('touch started');
    expect(await second.status).toBe(69);
    expect(second.stderr()).toContain(
      'cannot restore state.chk: it is compressed with zstd, and this machine has none',
    );
    expect(second.stderr()).toMatch(/try: run with Node 22\.15 or newer/);
    expect(second.stderr()).not.toMatch(/corrupt|cannot be restored \(.*trying/);
    expect(fs.existsSync(place.at('started'))).toBe(false);
  },
);
