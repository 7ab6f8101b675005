// What the user reads if something is wrong with a command line, in whichever file it is found.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { realOutside } from '../../src/cli/options/outside.ts';
import { mistakesOf, noFiles } from './given.ts';

const TASK = ['--', './task'];

describe('a mistake', () => {
  it.each([
    [['--reslts', 'a', ...TASK], 'unknown option --reslts | --results'],
    [['--frobnicate', ...TASK], 'unknown option --frobnicate | capture --help'],
    [['-z', ...TASK], 'unknown option -z | capture --help'],
    [['--keep=yes', ...TASK], '--keep takes no value | write --keep alone'],
    [['-r', ...TASK], '-r lacks its value | write the value behind it: -r <value>'],
    [['--to', ...TASK], '--to lacks its value | write the value behind it: --to <value>, or --to=<value>'],
    [['-r=x y', ...TASK], "-r=x y: -r takes no = | -r 'x y'"],
    [['-k=', ...TASK], '-k lacks its value | write the value behind it: -k <value>'],
    [['restore', '-r=x'], "-r=x: -r takes no = | -r 'x'"],
    [['--to', '--index', '3', ...TASK], '--to lacks its value | '],
    [[], "no task is given | capture --results 'out/*.dat' -- ./task"],
    [['-r', 'a', '--'], 'no task is given after -- | '],
    [['--', ''], 'no task is given after -- | '],
    [['-r', 'a', './task', 'b'], "'./task' stands where an option should | the task stands behind --: "],
    [['-r', 'a', 'watch'], 'the command comes first: capture watch'],
    [['-r', 'a', 'b', ...TASK], "'b' stands between the options and the task | "],
    [['watch', ...TASK], "capture watch runs no task, and takes no './task' | leave out -- and what"],
    [['watch', '--skip-dome'], 'unknown option --skip-dome | --skip-done; capture watch --help'],
    [['restore', '--grace', '--to', '/s'], '--grace lacks its value | '],
    [['wacth', '-r', 'a', '--control', 'c'], "unknown command 'wacth' | capture watch"],
    [['restor', '-k', 'k'], "unknown command 'restor' | capture restore"],
    [['bash'], "-- is missing before 'bash' | capture [options] -- bash"],
    [['true'], "-- is missing before 'true' | capture [options] -- true"],
    [['./sim', '-in', 'x'], "-- is missing before './sim' | capture [options] -- ./sim"],
    [['run', 'true'], "-- is missing before 'true' | capture [options] -- true"],
    [['true', ...TASK], "'true' stands between the options and the task | "],
    [['statsu', 's3://lab/run'], "unknown command 'statsu' | capture status"],
    [['lgos', 's3://lab/run'], "unknown command 'lgos' | capture logs"],
    [
      ['frobnicate'],
      "-- is missing before 'frobnicate' | capture [options] -- frobnicate; if a command of capture is meant: capture --help",
    ],
    [['flus'], "unknown command 'flus' | capture flush; a task stands behind --: capture [options] -- flus"],
    [['flsh', '--timeout', '1m'], "unknown command 'flsh' | capture flush"],
    [['help'], "unknown command 'help' | capture --help"],
    [['verson'], "unknown command 'verson' | capture --version"],
    [['-r', '/etc/x', ...TASK], "--results '/etc/x': patterns are relative"],
    [['-k', '../x', ...TASK], "--checkpoints '../x': '..' would lead out"],
    [['-i', '', ...TASK], '--inputs: the pattern is empty'],
    [['-r', '@list', ...TASK], "--results '@list': cannot read the patterns: no such file | "],
    [['--checkpoint-last', '/x', ...TASK], "--checkpoint-last '/x': patterns are relative"],
    [
      ['--grace', '30', ...TASK],
      "--grace '30': not a duration: it needs a unit, ms, s, m, h or d | --grace 30s",
    ],
    [['--grace', 'soon', ...TASK], '--grace 30s'],
    [['--drain-timeout', '90d', ...TASK], 'too long: at most 24d'],
    [['--rescan', '10ms', ...TASK], 'too short: at least 1.0 s'],
    [
      ['--spool-limit', '8', ...TASK],
      "--spool-limit '8': not a size: it needs a unit, KiB or K, MiB or M, GiB or G, kB, MB, GB | --spool-limit 8MiB",
    ],
    [['--compression', 'zstd:0', ...TASK], "--compression 'zstd:0': not a compression"],
    [
      ['--compression', 'zstd:22', ...TASK],
      'zstd, zstd:<1 to 19>, zstd:auto or none | --compression zstd:19',
    ],
    [['--compression', 'none:auto', ...TASK], "--compression 'none:auto': not a compression"],
    [['--compression', 'none:1', ...TASK], "--compression 'none:1': not a compression"],
    [['--compression', 'gzip', ...TASK], "--compression 'gzip': not a compression"],
    [['--generations', '0', ...TASK], "--generations '0': not a whole number, 1 to 1000 | --generations 1"],
    [['--newest', '1.5', ...TASK], "--newest '1.5': not a whole number"],
    [['--lanes', '17', ...TASK], "--lanes '17': not a whole number, 1 to 16, or auto | --lanes 16"],
    [['--lanes', '99999999999', ...TASK], '1 to 16, or auto | --lanes 16'],
    [['--lanes', '0', ...TASK], '1 to 16, or auto | --lanes 1'],
    [['--preempted-status', '0', ...TASK], 'not a whole number, 1 to 255'],
    [['--preempted-status', '256', ...TASK], 'not a whole number, 1 to 255'],
    [['--notify', 'http://', ...TASK], "--notify 'http://': no URL that can be asked"],
    [['--notify', 'https://me:secret@a/', ...TASK], '(user and password do not belong in it)'],
    [['--again-status', '0', ...TASK], "--again-status '0': not a whole number, 1 to 255"],
    [
      ['watch', '-r', 'r', '--again-status', '3'],
      '--again-status: without --exit-file nobody tells capture watch how the task ended | --exit-file <path>',
    ],
    [
      ['watch', '-r', 'r', '--trust-exit', '3', '--done-when', 'r'],
      '--done-when, --trust-exit: without --exit-file',
    ],
    [['watch', '-r', 'r', '--preempted-status', '85'], '--preempted-status: without --exit-file'],
    [['restore', '--handoff', '-r', 'r', '--again-status', '3'], '--again-status: without --exit-file'],
    [['--trust-exit', '3', '--trust-exit', 'SIGTERM', ...TASK], "--trust-exit 'SIGTERM': not a whole number"],
    [
      ['--again-status', '3', '--trust-exit', '3', ...TASK],
      'status 3 is named by --again-status and by --trust-exit',
    ],
    [['--to', 's3//lab/x', ...TASK], "--to 's3//lab/x': lacks its colon | --to s3://lab/x"],
    [['--notice', 'aws', ...TASK], "--notice 'aws': not a notice: auto, none, ec2, gce, azure"],
    [
      ['--notice', 'after:30', ...TASK],
      "--notice 'after:30': not a notice: after: needs a duration with its unit",
    ],
    [['--notice-on', 'KILL', ...TASK], "--notice-on 'KILL': not one of the signals TERM, INT, HUP"],
    [['--notice-signal', 'never', ...TASK], "--notice-signal 'never': neither auto nor none nor a signal"],
    [['--notice', 'none', '--notice', 'ec2', ...TASK], '--notice none and ec2 contradict each other'],
    [
      ['--notice', 'none', '--notice-on', 'USR1', ...TASK],
      '--notice none and --notice-on contradict each other',
    ],
    [['--done-when', '/x', ...TASK], "--done-when '/x': patterns are relative"],
    [['--verify-checkpoint', ' ', ...TASK], "--verify-checkpoint ' ': not a command"],
    [['--verify-checkpoint', 'x', '--verify-at', 'end', ...TASK], 'not one of restore, commit, both'],
    [
      ['--verify-at', 'commit', ...TASK],
      '--verify-at commit: there is nothing to verify with | --verify-checkpoint',
    ],
    [
      ['--log-output-limit', '2MiB', ...TASK],
      '--log-output-limit: without --log-output, only the end of a failure is stored | add --log-output',
    ],
    [['--log-output', '--no-last-lines', ...TASK], '--no-last-lines and --log-output contradict each other'],
    [['--log-output', '--log-output-limit', '2kB', ...TASK], 'too little: at least 1.0 MiB'],
    [['watch', '--exit-file', ''], "--exit-file '': not a path"],
    [['watch', '--handoff'], 'unknown option --handoff'],
    [['--exit-file', 'status', ...TASK], 'unknown option --exit-file'],
    [['--reclaim', 'maybe', ...TASK], "--reclaim 'maybe': not one of auto, now, never"],
    [['--on-local', 'x', ...TASK], "--on-local 'x': not one of stored, newest"],
    [['--log-level', 'loud', ...TASK], "--log-level 'loud': not one of"],
    [['--log-format', 'xml', ...TASK], "--log-format 'xml': not one of text, json"],
    [['--json', '--log-format', 'text', ...TASK], '--json and --log-format text contradict each other'],
    [['--log-file', '', ...TASK], "--log-file '': not a path"],
    [['--metrics', '', ...TASK], "--metrics '': not a path"],
    [['--metrics', '0', ...TASK], "--metrics '0': not a port, 1 to 65535"],
    [['--metrics', 'node:65536', ...TASK], "--metrics 'node:65536': not a port, 1 to 65535"],
    [['--index', 'a b', ...TASK], "--index 'a b': not an index"],
    [['--index', '', ...TASK], "--index '': not an index"],
    [['--index', 'zst', ...TASK], "--index 'zst': not an index"],
    [['--index', 'partial-1', ...TASK], "--index 'partial-1': not an index"],
    [['--task-name', 'a/b', ...TASK], "--task-name 'a/b': not a task name"],
    [['--run', '', ...TASK], "--run '': not a run id"],
    [['--to', 'gcs://lab', ...TASK], "--to 'gcs://lab': no such kind of store | --to gs://"],
    [['--namespace', '../ada', ...TASK], "--namespace '../ada': not a namespace: up to 64 letters"],
    [['--namespace', 'ada/', ...TASK], "--namespace 'ada/': not a namespace: up to 64 letters"],
    [['--from', 'ftp://lab', ...TASK], "--from 'ftp://lab': no such kind of store | --from s3://"],
    [['--to', '.', ...TASK], 'the store is the work directory itself (/)'],
    [
      ['--keep', '--reclaim', 'now', '--to', 's3://lab', ...TASK],
      '--reclaim now and --keep contradict each other',
    ],
    [
      ['--shared-workdir', '--reclaim', 'now', '--to', 's3://lab', ...TASK],
      'in a shared work directory nothing is reclaimed',
    ],
    [['--shared-workdir', '-r', '*.dat', ...TASK], "'*.dat' would also match the files of other tasks"],
    [['--shared-workdir', '-k', 'd/', ...TASK], "'d/' would also match the files of other tasks"],
    [
      ['--requeue', 'slurm', ...TASK],
      '--requeue slurm: this is no job of Slurm (SLURM_JOB_ID is not set) | leave out --requeue',
    ],
    [['--requeue', 'pbs', ...TASK], "--requeue 'pbs': not one of slurm | --requeue slurm"],
    [['--max-attempts', '0', ...TASK], "--max-attempts '0': not a whole number, 1 or more"],
    [
      ['--max-attempts', '3', '--again-status', '75', ...TASK],
      '--max-attempts 3: it would end with 75 (--again-status), which asks to be run again',
    ],
    [['--workdir', 'auto', '--', 'task'], 'no --to is given: the work directory of a task is removed'],
    [
      ['--workdir', 'auto', '--to', '/s', '--keep', '--', 'task'],
      '--workdir auto and --keep contradict each other',
    ],
    [
      ['--workdir', 'auto', '--to', '/s', '--reclaim', 'never', '--', 'task'],
      '--workdir auto and --reclaim never contradict each other',
    ],
    [
      ['--workdir', 'auto', '--to', '/s', '--shared-workdir', '-r', 'r', '--', 'task'],
      '--workdir auto and --shared-workdir contradict each other',
    ],
    [
      ['--workdir', 'auto', '--to', '/s', ...TASK],
      "the task's program './task' does not exist: there is no file /task",
    ],
    [['watch', '--workdir', 'auto', '-r', 'r'], '--workdir auto: only a run makes its work directory itself'],
    [['restore', '--workdir', 'auto'], '--workdir auto: only a run makes its work directory itself'],
    [['--encrypt', 'gpg:-rf', ...TASK], "--encrypt 'gpg:-rf': no id, fingerprint or address of a key"],
    [['--encrypt', 'gpg:--output=x@y', ...TASK], "--encrypt 'gpg:--output=x@y': no id, fingerprint or"],
    [['--encrypt', 'gpg:Joe', ...TASK], "--encrypt 'gpg:Joe': no id, fingerprint or address of a key"],
    [['--encrypt', 'gpg:', ...TASK], "--encrypt 'gpg:': no id, fingerprint or address of a key"],
    [
      ['--encrypt', 'gpg:joe@lab.example', '--encrypt', 'age1qqqqqqqqqqqq', ...TASK],
      '--encrypt names recipients of age and of gpg | take one kind',
    ],
    [
      ['--reclaim', 'now', ...TASK],
      '--reclaim now: nothing is reclaimed for a store inside the work directory',
    ],
  ])('in %j is explained: %s', (argv, expected) => {
    const mistakes = mistakesOf(argv);
    expect(mistakes).toEqual([expect.stringContaining(expected)]);
    expect(mistakes[0]).toMatch(/^[^\n]+ \| [^\n]+$/);
  });

  it.each([
    [
      { CAPTURE_GRACE: '30' },
      "CAPTURE_GRACE '30': not a duration: it needs a unit, ms, s, m, h or d | CAPTURE_GRACE=30s",
    ],
    [{ CAPTURE_KEEP: 'yes' }, "CAPTURE_KEEP 'yes': neither 1 nor 0 | CAPTURE_KEEP=1, or unset CAPTURE_KEEP"],
    [{ CAPTURE_RESULTS: 'a\n/b' }, "CAPTURE_RESULTS '/b': patterns are relative"],
    [{ CAPTURE_INDEX: 'a b' }, "CAPTURE_INDEX 'a b': not an index"],
    [{ JOB_ARRAY_INDEX: '1:2' }, "JOB_ARRAY_INDEX '1:2': not an index"],
    [
      { OMPI_COMM_WORLD_SIZE: '4' },
      'inside a parallel step (OMPI_COMM_WORLD_SIZE=4): each rank would capture the same index | capture ... -- srun ./task',
    ],
  ])('in the environment %j is explained: %s', (env, expected) => {
    expect(mistakesOf(TASK, env)).toEqual([expect.stringContaining(expected)]);
  });

  it('does not hide another', () => {
    const argv = [
      '--reslts',
      'a',
      '-r',
      '/b',
      '-k',
      '../c',
      '--grace',
      '5',
      '--to',
      'gopher://x',
      '--index',
      'é',
      '--log-level',
    ];
    expect(mistakesOf([...argv, '--'], { CAPTURE_LANES: 'many' })).toHaveLength(9);
  });

  it('in a manifest file is named with its line', () => {
    const outside = { ...noFiles, readText: () => 'good\n# comment\n/bad\n' };
    expect(mistakesOf(['-r', '@list', ...TASK], {}, outside)).toEqual([
      expect.stringContaining("--results @list line 3: '/bad'"),
    ]);
  });
});

describe('a control character', () => {
  it.each([
    ['--sse', 'kms:alias/lab'],
    ['--storage-class', 'STANDARD_IA'],
    ['--tag', 'project=melt'],
    ['--to', 's3://lab/melt'],
    ['--from', 's3://lab/melt'],
    ['--namespace', 'ada/melt'],
    ['--task-name', 'lmp'],
    ['--run', '17'],
    ['--index', '3'],
  ])('is refused in %s, which becomes a header or a key', (flag, value) => {
    expect(mistakesOf([flag, value, ...TASK])).toEqual([]);
    for (const control of ['\n', '\r', '\t', '\x01', '\x7f', '\x85'])
      for (const text of [value + control, value.slice(0, -1) + control + value.slice(-1)])
        expect(mistakesOf([flag, text, ...TASK]), JSON.stringify(text)).toHaveLength(1);
  });
});

describe('a work directory', () => {
  let dir = '';
  beforeAll(() => {
    dir = fs.mkdtempSync(path.join(os.tmpdir(), 'capture-cli-'));
    fs.writeFileSync(path.join(dir, 'file'), '');
  });
  afterAll(() => fs.rmSync(dir, { recursive: true }));

  const at = (workdir: string) => mistakesOf(['--workdir', workdir, ...TASK], {}, realOutside);

  it('that is there and can be written is fine', () => expect(at(dir)).toEqual([]));

  it.each([
    ['missing', 'no such directory'],
    ['file', 'it is not a directory'],
    ['file/below', 'it is not a directory'],
  ])('%j is refused: %s', (name, why) => {
    expect(at(path.join(dir, name))).toEqual([expect.stringContaining(`${name}: ${why} | `)]);
  });

  it('from which a manifest file is read keeps every byte of the names', () => {
    const list = path.join(dir, 'list');
    fs.writeFileSync(list, Buffer.from([0x61, 0xff, 0x0a]));
    expect(realOutside.readText(list)).toBe('a\udcff\n');
  });
});
