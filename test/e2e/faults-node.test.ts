// The fault matrix, fourth part (docs/fault-matrix.md): what the node lacks. File systems and limits are set in
// a namespace of the run's own, so that the tests need no root and harm nobody.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inNamespace, type NamespaceOptions } from '../support/namespace.ts';
import { BIN, noise, openPlace, sidecarOf, type Place, type Run } from './support.ts';

const MIB = 2 ** 20;

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

function run(namespace: NamespaceOptions, options: readonly string[], script: string): Run {
  const command = [BIN, '--to', place.store, ...options, '--', 'sh', '-c', script];
  return place.exec(inNamespace(namespace, command, place.work));
}

describe('a work directory that is full', () => {
  it('stores what was closed before, exits as the task did, and makes room with what is durable', async () => {
    const full = run(
      { tmpfs: { [place.work]: '2m' }, after: 'ls -A' },
      ['-r', 'r.dat'],
      'seq 1000 > r.dat; dd if=/dev/zero of=junk bs=64k; true',
    );
    expect(await full.status, full.stderr()).toBe(0);
    expect(place.text('r.dat.0.zst')).toContain('999\n');
    expect(full.stderr()).toContain('No space left'); // the task's own
    expect(full.stdout().trim().split('\n')).toEqual(['.capture', 'junk']);
  });

  it('is the reason that is shown if the task fails: with what is free, and what helps', async () => {
    const failed = run(
      { tmpfs: { [place.work]: '2m' } },
      ['--task-name', 't', '--index', '3', '-r', 'r.dat'],
      'dd if=/dev/zero of=junk bs=64k || exit 9',
    );
    expect(await failed.status, failed.stderr()).toBe(9);
    const text = `the file system of the work directory (${place.work}) is full: 0 B free`;
    expect(failed.stderr()).toContain(`failed: the task ended with 9; ${text}; stored`);
    expect(failed.stderr()).toMatch(
      /\n {2}try: free space there, or let --workdir .* name a larger file system/,
    );
    expect(place.records().at(-1)?.record.end?.reason).toBe(text);
    const status = place.capture(['status', place.store, '3']);
    await status.status;
    expect(status.stdout()).toContain(`the task exited 9; capture exited 9; ${text}`);
    const table = place.capture(['status', place.store]);
    await table.status;
    expect(table.stdout()).toMatch(/^3 +failed 9, disk full +1 /m);
  });

  it('... or that of TMPDIR is', async () => {
    fs.mkdirSync(place.at('tmp'));
    const script = 'export TMPDIR=$PWD/tmp; dd if=/dev/zero of=tmp/junk bs=64k || exit 9';
    const command = ['env', `TMPDIR=${place.at('tmp')}`, BIN, '--to', place.store, '--', 'sh', '-c', script];
    const failed = place.exec(inNamespace({ tmpfs: { [place.at('tmp')]: '4m' } }, command, place.work));
    expect(await failed.status, failed.stderr()).toBe(9);
    expect(failed.stderr()).toContain(`the file system of TMPDIR (${place.at('tmp')}) is full: 0 B free`);
    expect(failed.stderr()).toMatch(/\n {2}try: free space there, or let TMPDIR name/);
  });

  it('... or no file can be made in it', async () => {
    const failed = run(
      { tmpfs: { [place.work]: '2m,nr_inodes=40' } },
      ['-r', 'r.dat'],
      'i=0; while touch n$i; do i=$((i+1)); done; exit 9',
    );
    expect(await failed.status, failed.stderr()).toBe(9);
    expect(failed.stderr()).toContain(`(${place.work}) has no room for another file (inodes): `);
  });

  it('... and is not, if there is room', async () => {
    const failed = run({ tmpfs: { [place.work]: '2m' } }, ['-r', 'r.dat'], 'exit 9');
    expect(await failed.status, failed.stderr()).toBe(9);
    expect(failed.stderr()).not.toContain('full');
  });

  it('leaves what stands on a file system of its own, without a word for each file', async () => {
    fs.mkdirSync(place.at('volume'));
    const elsewhere = run(
      { tmpfs: { [place.at('volume')]: '1m' }, after: 'ls . volume' },
      ['-r', '*.dat', '-r', 'volume/*.dat'],
      'echo 1 > volume/a.dat; echo 2 > volume/b.dat; echo 3 > n.dat',
    );
    expect(await elsewhere.status, elsewhere.stderr()).toBe(0);
    expect(elsewhere.stdout()).toBe('.:\nvolume\n\nvolume:\na.dat\nb.dat\n');
    expect(elsewhere.stderr()).not.toContain('warning');
    expect(elsewhere.stderr()).toContain('1 local file deleted here');
  });

  it('a restore onto a file system of its own is status 69, and says which directory is the right one', async () => {
    fs.mkdirSync(place.at('volume'));
    const options = ['--task-name', 't', '-k', 'volume/k.chk'];
    expect(await place.run(options, ['sh', '-c', 'echo 1 > volume/k.chk']).status).toBe(0);
    place.freshWork();
    fs.mkdirSync(place.at('volume'));
    const elsewhere = run({ tmpfs: { [place.at('volume')]: '1m' } }, options, 'echo started');
    expect(await elsewhere.status, elsewhere.stderr()).toBe(69);
    expect(elsewhere.stdout()).toBe('');
    expect(elsewhere.stderr()).toMatch(/cannot place volume\/k\.chk.*EXDEV.*\n {2}try: .*--workdir/);
  });

  it('an input whose size nobody has recorded is status 69 once it fills nine tenths of the room', async () => {
    const zeros = place.run(['-r', 'zeros', '--task-name', 'zeros'], ['truncate', '-s', '256M', 'zeros']);
    expect(await zeros.status, zeros.stderr()).toBe(0);
    // As somebody has put it there by hand: some kB.
    fs.copyFileSync(`${place.store}/zeros.0.zst`, `${place.store}/in.dat.0.zst`);
    place.freshWork();
    const filled = run(
      { tmpfs: { [place.work]: '32m' }, after: 'ls -A; du -sm .' },
      ['-i', 'in.dat', '-r', 'r.dat'],
      'echo started',
    );
    expect(await filled.status, filled.stderr()).toBe(69);
    expect(filled.stdout()).toMatch(/^\.capture\n0\t|^\.capture\n1\t/);
    expect(filled.stderr()).toMatch(
      /cannot restore in\.dat .* larger than \S+ MiB, nine tenths.*\n {2}try: free space/,
    );
  });

  it('a restore that does not fit is status 69, and nothing is placed', async () => {
    fs.writeFileSync(place.at('seed'), noise(3 * MIB, 3));
    expect(await place.run(['-k', 'k.chk'], ['cp', 'seed', 'k.chk']).status).toBe(0);
    place.freshWork();
    const small = run(
      { tmpfs: { [place.work]: '1m' }, after: 'ls -A' },
      ['--task-name', 'cp', '-k', 'k.chk'],
      'echo started',
    );
    expect(await small.status, small.stderr()).toBe(69);
    expect(small.stderr()).toMatch(/cannot restore 1 file \(3\.0 MiB\).*are free\n {2}try: free space/);
    expect(small.stdout().trim()).toBe('.capture');
  });

  it('before the start is status 69, and nothing is started', async () => {
    const full = run(
      { tmpfs: { [place.work]: '64k,nr_inodes=2' }, before: 'touch ballast' },
      ['-r', 'r.dat'],
      'echo started',
    );
    expect(await full.status, full.stderr()).toBe(69);
    expect(full.stderr()).toMatch(/cannot write in the work directory .*ENOSPC.*\n {2}try: /);
    expect(full.stdout()).toBe('');
  });

  it.each([0, 1, 2, 3, 4])(
    'with room for %i more files starts a task, or says what is wrong',
    async (free) => {
      const leave = Array.from({ length: free }, (_, n) => `rm f${n};`).join(' ');
      const full = run(
        {
          tmpfs: { [place.work]: '256k,nr_inodes=32' },
          before: `n=0; while touch f$n 2>/dev/null; do n=$((n + 1)); done; ${leave}`,
        },
        ['-r', 'r.dat'],
        'echo started',
      );
      const status = await full.status;
      if (status !== 0) {
        expect(status, full.stderr()).toBe(69);
        expect(full.stderr()).toMatch(
          /cannot write in the work directory .*ENOSPC.*\n {2}try: make room there/,
        );
      }
      expect(full.stdout()).toBe(status === 0 ? 'started\n' : '');
    },
  );

  it('ends no capture watch: its task is at work', async () => {
    const capture = `${BIN} "$@" --to ${place.store} --task-name t -r r.dat --exit-file ${place.dir}/exit`;
    const script = `set -- restore --handoff; ${capture}; echo result > r.dat; n=0
      while touch f$n 2>/dev/null; do n=$((n + 1)); done
      echo 0 > ${place.dir}/exit; set -- watch; exec ${capture}`;
    const tmpfs = { [place.work]: '256k,nr_inodes=32' };
    const watch = place.exec(inNamespace({ tmpfs }, ['sh', '-c', script], place.work));
    expect(await watch.status, watch.stderr()).toBe(0);
    expect(place.text('r.dat.0')).toBe('result\n');
    expect(watch.stderr()).not.toContain('cannot watch for closes');
  });

  it('is relieved while the task runs: more is written than ever fits', async () => {
    const script = [
      'for i in 1 2 3 4 5 6 7 8 9; do',
      '  until dd if=/dev/urandom of=tmp bs=64k count=16 2>/dev/null; do sleep 0.05; done',
      '  mv tmp r$i.dat',
      'done',
    ].join('\n');
    const tight = run(
      { tmpfs: { [place.work]: '5m' }, after: 'ls -A' },
      ['-r', 'r*.dat', '--compression', 'none'],
      script,
    );
    expect(await tight.status, tight.stderr()).toBe(0);
    expect(place.keys()).toEqual(Array.from({ length: 9 }, (_, n) => `r${n + 1}.dat.0`));
    for (const key of place.keys()) expect(place.stored(key)).toHaveLength(MIB);
    expect(tight.stdout().trim()).toBe('.capture');
  });
});

describe('a tmpfs that is larger than the memory which the job may use', () => {
  /** The files of our own memory cgroup, in a tree that takes the place of the kernel's; the limit is 64 MiB. */
  function fakeCgroups(dir: string): { readonly used: string } {
    const lines = fs.readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n');
    const legacy = lines.find((line) => /^\d+:[^:]*\bmemory\b/.test(line))?.split(':')[2];
    const unified = lines.find((line) => line.startsWith('0::'))?.slice('0::'.length);
    const own = legacy === undefined ? `${dir}${unified}` : `${dir}/memory${legacy}`;
    const [limit, used] =
      legacy === undefined
        ? ['memory.max', 'memory.current']
        : ['memory.limit_in_bytes', 'memory.usage_in_bytes'];
    fs.mkdirSync(own, { recursive: true });
    fs.writeFileSync(`${own}/${limit}`, String(64 * MIB));
    fs.writeFileSync(`${own}/${used}`, String(MIB));
    return { used: `${own}/${used}` };
  }

  it('is relieved when the memory is used up, and the user reads what holds it', async () => {
    const cgroups = `${place.dir}/cgroups`;
    const { used } = fakeCgroups(cgroups);
    const script = [
      'for i in 1 2 3 4; do head -c 4194304 /dev/urandom > r$i.dat; done',
      `echo ${60 * MIB} > ${used}`,
      'echo more > r5.dat',
      'for n in $(seq 300); do [ ! -e r1.dat ] && grep -q "may use" log && exit 0; sleep 0.1; done; exit 3',
    ].join('\n');
    const tight = run(
      { tmpfs: { [place.work]: '1g' }, binds: { '/sys/fs/cgroup': cgroups }, after: 'cat log' },
      ['-r', 'r*.dat', '--compression', 'none', '--log-file', 'log'],
      script,
    );
    expect(await tight.status, tight.stderr()).toBe(0);
    expect(place.keys()).toEqual(['r1.dat.0', 'r2.dat.0', 'r3.dat.0', 'r4.dat.0', 'r5.dat.0']);
    expect(tight.stdout()).toMatch(
      /warning: the memory that this job may use, with a work directory in it, is 93 % used, 4\.0 MiB left; results that are stored and still here hold (0 B, [^]*\n {2}try: give the task a larger work directory|[^]*\n {2}try: --reclaim now)/,
    );
  });
});

describe('a store that is full', () => {
  const mounted = (): NamespaceOptions => ({
    tmpfs: { [place.store]: '1m' },
    after: `cd ${place.store}; find . -type f | sort`,
  });

  it('takes what fits; the rest is named with exit 74, and stays', async () => {
    fs.mkdirSync(place.store);
    fs.writeFileSync(place.at('seed'), noise(2 * MIB, 4));
    const full = run(
      mounted(),
      ['-r', 'big', '-r', 'small', '--drain-timeout', '2s'],
      'cp seed big; echo data > small',
    );
    expect(await full.status, full.stderr()).toBe(74);
    expect(full.stderr()).toMatch(
      /the store does not work: put .*big\.0: no space left \(ENOSPC\).*\n {2}try: make room there/,
    );
    expect(full.stderr()).toMatch(/NOT stored: big \(put .*no space left/);
    expect(full.stdout()).toContain('./small.0\n');
    expect(full.stdout()).not.toMatch(/big\.0|tmp\/[0-9a-f]/);
    expect(fs.readdirSync(place.work)).toContain('big');
  });

  it('for a while costs time only', async () => {
    fs.mkdirSync(place.store);
    fs.writeFileSync(place.at('seed'), noise(MIB / 2, 4));
    const script = `dd if=/dev/zero of=${place.store}/ballast bs=64k 2>/dev/null; cp seed big; until grep -q 'does not work' log; do sleep 0.05; done; rm ${place.store}/ballast`;
    const full = run(mounted(), ['-r', 'big', '--log-file', 'log', '--compression', 'none'], script);
    expect(await full.status, full.stderr()).toBe(0);
    expect(full.stdout()).toContain('./big.0\n');
    expect(fs.readFileSync(place.at('log'), 'utf8')).toContain('the store works again');
  });
});

it('a store that is full for a while ends no sidecar that replaces a dead one', async () => {
  fs.mkdirSync(place.store);
  const script = `dd if=/dev/zero of=${place.store}/ballast bs=4k 2>/dev/null; echo data > r.dat
    kill -KILL $(pgrep -P $PPID -f '[s]idecar.cjs')
    until grep -q 'is not recorded yet' log; do sleep 0.05; done; rm ${place.store}/ballast`;
  const full = run(
    { tmpfs: { [place.store]: '1m' }, after: `ls ${place.store}` },
    ['-r', 'r.dat', '--log-file', 'log'],
    script,
  );
  expect(await full.status, full.stderr()).toBe(0);
  expect(full.stdout()).toBe('r.dat.0\n');
});

describe('a work directory that is read-only', () => {
  it('is status 64, says what to do, and nothing is started', async () => {
    const refused = run(
      { tmpfs: { [place.work]: '1m' }, readOnly: [place.work] },
      ['-r', 'r.dat'],
      'echo started',
    );
    expect(await refused.status, refused.stderr()).toBe(64);
    expect(refused.stderr()).toMatch(
      /cannot work in .*: the file system is read-only\n {2}try: start capture in a directory that can be written/,
    );
    expect(refused.stdout()).toBe('');
    expect(place.keys()).toEqual([]);
  });
});

describe('a work directory that turns read-only', () => {
  it('is taken over by a sidecar that replaces a dead one, and what can be read is stored', async () => {
    const go = `${place.dir}/go`;
    const later = run(
      { tmpfs: { [place.work]: '1m' } },
      ['-r', 'r.dat'],
      `exec 3> r.dat; echo result >&3; mount --bind . "$PWD"; mount -o remount,ro,bind "$PWD"
       exec 3>&-; kill -KILL $(pgrep -P $PPID -f '[s]idecar.cjs'); until [ -e ${go} ]; do sleep 0.02; done`,
    );
    await later.says('looked at again');
    fs.writeFileSync(go, '');
    expect(await later.status, later.stderr()).toBe(0);
    expect(place.text('r.dat.0')).toBe('result\n');
  });
});

describe('limits of the kernel', () => {
  it.each<[string, NamespaceOptions]>([
    ['no inotify instance', { limits: { max_inotify_instances: 0 } }],
    ['no inotify watch', { limits: { max_inotify_watches: 0 } }],
    ['fewer inotify watches than directories', { limits: { max_inotify_watches: 3 } }],
  ])('%s: one warning, and everything is stored', async (_, namespace) => {
    const limited = run(
      namespace,
      ['-r', 'out/**', '-k', 'k.chk'],
      'mkdir -p out/a/b out/c/d; for i in a/b c/d; do echo $i > out/$i/r; done; echo step > k.chk',
    );
    expect(await limited.status, limited.stderr()).toBe(0);
    expect(place.keys()).toEqual(['k.chk.sh.0.1-1', 'out/a/b/r.0', 'out/c/d/r.0']);
    expect(limited.stderr()).toMatch(/warning: .*inotify/);
  });

  it('few open files: many results are stored and reclaimed all the same', async () => {
    const limited = run(
      { openFiles: 64, after: 'ls -A' },
      ['-r', 'r*'],
      'i=0; while [ $i -lt 200 ]; do echo $i > r$i; i=$((i+1)); done',
    );
    expect(await limited.status, limited.stderr()).toBe(0);
    expect(place.keys()).toHaveLength(200);
    expect(limited.stdout().trim()).toBe('.capture');
    expect(limited.stderr()).not.toContain('warning');
  });

  it('few open files: a task of many processes that have long done nothing leaves enough of them', async () => {
    const limited = run(
      { openFiles: 64, after: 'ls -A' },
      ['-r', 'r*', '-k', 'k.chk', '--generations', '1'],
      // Long enough for their deaths to be followed; then everything is stored before they are gone.
      `i=0; while [ $i -lt 80 ]; do sleep 60 & p="$p $!"; i=$((i+1)); done; sleep 6
       i=0; while [ $i -lt 5 ]; do echo $i > r$i; i=$((i+1)); done; head -c 20000000 /dev/urandom > k.chk
       ${BIN} flush; echo flushed $?; kill $p`,
    );
    expect(await limited.status, limited.stderr()).toBe(0);
    expect(limited.stdout()).toContain('flushed 0');
    expect(place.keys()).toHaveLength(6);
    expect(limited.stderr()).not.toContain('warning');
  });

  it('no open file left (EMFILE) for a while costs time only', async () => {
    const limited = place.run(
      ['-r', 'r.dat', '-k', 'k.chk'],
      [
        'sh',
        '-c',
        'while [ ! -e go ]; do sleep 0.05; done; echo result > r.dat; echo step > k.chk; while [ ! -e end ]; do sleep 0.05; done',
      ],
    );
    await limited.says('task sh');
    const sidecar = String(sidecarOf(limited.pid));
    // prlimit(1) of util-linux, on the soft limit: the hard one stays as it is.
    const allow = (files: string): Buffer =>
      execFileSync('prlimit', ['--pid', sidecar, `--nofile=${files}:`]);
    const before = execFileSync('prlimit', ['--pid', sidecar, '--nofile', '--output=SOFT', '--noheadings']);
    allow('3');
    fs.writeFileSync(place.at('go'), '');
    await limited.says(/warning: .*EMFILE/);
    allow(before.toString().trim());
    fs.writeFileSync(place.at('end'), '');
    expect(await limited.status, limited.stderr()).toBe(0);
    expect(place.keys()).toEqual(['k.chk.sh.0.1-1', 'r.dat.0']);
    expect(place.records().at(-1)?.record).toMatchObject({ kind: 'done', left: [] });
  });
});
