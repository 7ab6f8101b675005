import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { optionsOf, RUN_OPTIONS } from '../../src/cli/options.ts';
import { envNameOf } from '../../src/cli/options/spec.ts';
import { noFiles, optionOf, parse, parsed } from './given.ts';

const TASK = ['--', './task', '-r', 'x'];

/** Every option with a value, and the piece of the settings that it makes. */
const ROWS: readonly (readonly [string, string, object])[] = [
  ['results', 'out/*.dat', { manifest: { results: ['out/*.dat'] } }],
  ['checkpoints', 'k.chk', { manifest: { checkpoints: ['k.chk'] } }],
  ['inputs', './in.dat', { manifest: { inputs: ['in.dat'] } }],
  ['companions', 'md.log', { manifest: { companions: ['md.log'] } }],
  ['exclude', 'tmp/', { manifest: { exclude: ['tmp/'] } }],
  ['to', 's3://lab/run7/', { to: { url: 's3://lab/run7' }, perishableStore: false }],
  ['from', 'shared', { from: { url: 'file:///shared' } }],
  ['namespace', 'ada/melt', { to: { url: 'file:///capture-store/ada/melt' }, from: undefined }],
  ['path-style', '1', { to: { flags: ['path-style'] } }],
  ['request-payer', '1', { to: { flags: ['request-payer'] } }],
  ['sse', 'kms:alias/lab', { to: { flags: ['sse=kms:alias/lab'] } }],
  ['storage-class', 'STANDARD_IA', { to: { flags: ['storage-class=STANDARD_IA'] } }],
  ['tag', 'project=melt', { to: { flags: ['tag=project=melt'] } }],
  ['unfenced', '1', { to: { unfenced: true } }],
  ['index', 'a-1', { identity: { index: 'a-1' } }],
  ['task-name', 'lj', { identity: { taskName: 'lj' } }],
  ['run', '12[].srv', { identity: { runId: '12[].srv' } }],
  ['workdir', 'scratch', { workdir: '/scratch' }],
  ['shared-workdir', '1', { sharedWorkdir: true, reclaim: 'never' }],
  ['reclaim', 'never', { reclaim: 'never' }],
  ['keep', '1', { reclaim: 'never' }],
  ['rescan', '5m', { rescanMs: 300_000 }],
  ['checkpoint-settle', '500ms', { checkpointSettleMs: 500 }],
  ['companion-interval', '20s', { companionIntervalMs: 20_000 }],
  ['checkpoint-last', './last.chk', { checkpointLast: 'last.chk' }],
  ['generations', '5', { generations: 5 }],
  ['drop-checkpoints-when-done', '1', { dropCheckpoints: true }],
  ['newest', '3', { manifest: { newest: 3 } }],
  ['no-restore', '1', { restore: false }],
  ['skip-done', '1', { skipDone: true }],
  ['on-local', 'newest', { onLocal: 'newest' }],
  ['notice', 'ec2', { notices: { sources: [{ kind: 'ec2' }] } }],
  ['notice', 'file:stop', { notices: { sources: [{ kind: 'file', path: '/stop' }] } }],
  ['notice', 'after:90s', { notices: { sources: [{ kind: 'after', ms: 90_000 }] } }],
  ['notice', 'none', { notices: { sources: [], signals: [] } }],
  ['notice-on', 'USR1', { notices: { sources: [{ kind: 'auto' }], signals: ['SIGUSR1'] } }],
  ['notice-signal', 'sigint', { notices: { tell: 'SIGINT' } }],
  ['grace', '90s', { graceMs: 90_000 }],
  ['drain-timeout', '10m', { drainTimeoutMs: 600_000 }],
  ['max-attempts', '3', { maxAttempts: 3 }],
  ['preempted-status', '99', { preemptedStatus: 99 }],
  ['require-results', '1', { endRules: { requireResults: true } }],
  ['done-when', './end.gro', { endRules: { doneWhen: 'end.gro' }, manifest: { results: ['end.gro'] } }],
  ['again-status', '85', { endRules: { againStatuses: [85] } }],
  ['trust-exit', '3', { endRules: { trustedStatuses: [3] } }],
  ['notify', 'HTTPS://a/b?c', { notify: { kind: 'url', url: 'HTTPS://a/b?c' } }],
  ['notify', 'mail me', { notify: { kind: 'command', command: 'mail me' } }],
  ['verify-checkpoint', './check', { verify: { command: './check', atRestore: true, atCommit: false } }],
  ['compression', 'zstd:6', { compression: { kind: 'zstd', level: 6 } }],
  ['compression', 'zstd', { compression: { kind: 'zstd', level: 1 } }],
  ['compression', 'zstd:auto', { compression: { kind: 'zstd', level: 'auto' } }],
  ['compression', 'none', { compression: { kind: 'none' } }],
  ['encrypt', 'age1qqqqqqqqqqqq', { seal: { to: ['age1qqqqqqqqqqqq'] } }],
  ['identity', 'run.key', { seal: { to: [], identityFile: '/run.key' } }],
  ['identity-command', 'print key', { seal: { to: [], identityCommand: 'print key' } }],
  ['lanes', '4', { workers: 4 }],
  ['lanes', 'auto', { workers: 'auto' }],
  ['spool', 'tmp', { spoolDir: '/tmp' }],
  ['bandwidth', '20MB/s', { bandwidthBytes: 20e6 }],
  ['bandwidth', '512KiB/s', { bandwidthBytes: 512 * 2 ** 10 }],
  ['spool-limit', '8MiB', { spoolLimitBytes: 8 * 2 ** 20 }],
  ['log-level', 'debug', { log: { level: 'debug' } }],
  ['log-format', 'json', { log: { format: 'json' } }],
  ['json', '1', { log: { format: 'json' } }],
  ['log-file', 'c.log', { log: { file: '/c.log' } }],
  ['metrics', '9464', { metrics: { kind: 'listen', host: '127.0.0.1', port: 9464 } }],
  ['metrics', '0.0.0.0:80', { metrics: { kind: 'listen', host: '0.0.0.0', port: 80 } }],
  ['metrics', '[::1]:9464', { metrics: { kind: 'listen', host: '::1', port: 9464 } }],
  ['metrics', 'c.prom', { metrics: { kind: 'file', path: '/c.prom' } }],
  ['log-output', '1', { outputLimitBytes: 64 * 2 ** 20 }],
  ['no-last-lines', '1', { outputLimitBytes: 0 }],
];

const isFlag = (name: string) => optionOf(name).kind === 'flag';

describe('each option', () => {
  it.each(ROWS)('--%s %s is understood', (name, text, settings) => {
    const argv = isFlag(name) ? [`--${name}`] : [`--${name}`, text];
    expect(parsed([...argv, ...TASK]).settings).toMatchObject(settings);
  });

  it.each(ROWS.filter(([name]) => !isFlag(name)))('--%s=%s is understood', (name, text, settings) => {
    expect(parsed([`--${name}=${text}`, ...TASK]).settings).toMatchObject(settings);
  });

  it.each(ROWS)('--%s %s has a twin in the environment', (name, text, settings) => {
    expect(parsed(TASK, { [envNameOf(name)]: text }).settings).toMatchObject(settings);
  });

  it('is in these rows', () => {
    // These do not stand alone: they are below, or are of another command: flush.test.ts.
    const BESIDE = [
      'handoff',
      'index-map',
      'exit-file',
      'verify-at',
      'requeue',
      'dry-run',
      'control',
      'log-output-limit',
    ];
    expect(new Set([...ROWS.map(([name]) => name), ...BESIDE])).toEqual(
      new Set(RUN_OPTIONS.map(({ name }) => name)),
    );
  });

  it.each(['watch', 'restore'] as const)(
    'of a run is accepted by %s, where it means nothing, too',
    (command) => {
      const argv = ROWS.flatMap(([name, text]) => {
        // In one command line these contradict others.
        if (['shared-workdir', 'keep', 'notice', 'notice-on'].includes(name)) return [];
        return optionOf(name).on.includes('run') ? [isFlag(name) ? `--${name}` : `--${name}=${text}`] : [];
      });
      const { settings } = parsed([command, ...argv, '--exit-file=e', '--requeue=slurm']);
      const idle = { skipDone: false, maxAttempts: undefined, requeue: undefined };
      expect(settings).toMatchObject(idle);
      expect(parsed([command, '--on-local=newest', '--no-restore']).settings).toMatchObject({
        restore: command === 'restore',
        onLocal: command === 'restore' ? 'newest' : 'stored',
      });
    },
  );

  it('--log-output-limit, or its twin, says how much of the output is kept', () => {
    const kept = { outputLimitBytes: 2 ** 24 };
    expect(parsed(['--log-output', '--log-output-limit', '16MiB', ...TASK]).settings).toMatchObject(kept);
    const env = { CAPTURE_LOG_OUTPUT: '1', CAPTURE_LOG_OUTPUT_LIMIT: '16MiB' };
    expect(parsed(TASK, env).settings).toMatchObject(kept);
  });

  it('--requeue slurm, or its twin, names the job of Slurm that it is in', () => {
    const job = { SLURM_JOB_ID: '9', SLURM_ARRAY_JOB_ID: '7', SLURM_ARRAY_TASK_ID: '3' };
    const requeue = { id: '7_3', restarts: 0 };
    expect(parsed(['--requeue', 'slurm', ...TASK], job).settings).toMatchObject({ requeue });
    expect(parsed(TASK, { ...job, CAPTURE_REQUEUE: 'slurm' }).settings).toMatchObject({ requeue });
    // The script's line is tried on the login node first.
    expect(parsed(['--requeue', 'slurm', '--dry-run', ...TASK]).settings.requeue).toBeUndefined();
    expect(parsed(TASK, job).settings.requeue).toBeUndefined();
  });

  it('has a short form where it stands in every command line', () => {
    const { settings } = parsed(['-r', 'a', '-k', 'b', '-ic', '-r', 'd', ...TASK]);
    expect(settings.manifest).toMatchObject({ results: ['a', 'd'], checkpoints: ['b'], inputs: ['c'] });
  });

  it('has its default', () => {
    expect(parsed(TASK).settings).toMatchObject({
      to: { url: 'file:///capture-store', flags: [], unfenced: false },
      perishableStore: true,
      from: undefined,
      identity: { taskName: 'task', index: undefined, runId: undefined, argv: ['./task', '-r', 'x'] },
      workdir: '/',
      reclaim: 'auto',
      compression: { kind: 'zstd', level: 1 },
      companionIntervalMs: 60_000,
      checkpointSettleMs: 2000,
      generations: 2,
      dropCheckpoints: false,
      graceMs: 27_000,
      drainTimeoutMs: 3_600_000,
      rescanMs: 60_000,
      restore: true,
      skipDone: false,
      onLocal: 'stored',
      preemptedStatus: 75,
      endRules: { requireResults: false, doneWhen: undefined, againStatuses: [], trustedStatuses: [] },
      verify: undefined,
      log: { level: 'info', format: 'text', file: undefined },
    });
  });
});

it('--encrypt takes keys of gpg by fingerprint, key id and address', () => {
  const to = [
    'gpg:B93D80E6A740C44990860E0DA637541E26951300',
    'gpg:0xA637541E26951300',
    'gpg:run+7@lab.example',
  ];
  const words = to.flatMap((one) => ['--encrypt', one]);
  expect(parsed([...words, ...TASK]).settings.seal).toEqual({ to });
});

describe('--verify-at', () => {
  it.each([
    ['restore', { atRestore: true, atCommit: false }],
    ['commit', { atRestore: false, atCommit: true }],
    ['both', { atRestore: true, atCommit: true }],
  ])('%s says when the check runs', (at, verify) => {
    expect(
      parsed(['--verify-checkpoint', './check', '--verify-at', at, ...TASK]).settings.verify,
    ).toMatchObject(verify);
  });

  it('is the commit beside a task that somebody else runs, as nothing is restored there', () => {
    const { settings } = parsed(['watch', '-r', 'x', '--verify-checkpoint', './check']);
    expect(settings.verify).toMatchObject({ atRestore: false, atCommit: true });
  });
});

describe('what containers beside the task are told', () => {
  it('is understood, and by no other command', () => {
    const env = { CAPTURE_EXIT_FILE: 'status', CAPTURE_HANDOFF: '1', CAPTURE_DONE_WHEN: 'end.gro' };
    expect(parsed(['watch', '-r', 'x'], env).settings).toMatchObject({ exitFile: '/status', handoff: false });
    expect(parsed(['restore', '-r', 'x'], env).settings).toMatchObject({
      exitFile: '/status',
      handoff: true,
    });
    expect(parsed(TASK, env).settings).toMatchObject({ exitFile: undefined, handoff: false });
    expect(parsed(['watch', '-r', 'x', '--exit-file', 'e', '--trust-exit', '3']).settings).toMatchObject({
      exitFile: '/e',
      endRules: { trustedStatuses: [3] },
    });
    expect(parsed(['restore', '-r', 'x', '--handoff', '--unfenced']).settings.to.unfenced).toBe(true);
  });

  it('may stand in an environment that all containers share', () => {
    expect(parse(['watch', '-r', 'x'], { CAPTURE_TRUST_EXIT: '3', CAPTURE_EXIT_FILE: '' }).kind).toBe(
      'watch',
    );
    expect(parse(['restore', '-r', 'x'], { CAPTURE_UNFENCED: '1', CAPTURE_EXIT_FILE: 'e' }).kind).toBe(
      'restore',
    );
  });
});

describe('the environment', () => {
  it('yields to the command line, list for list', () => {
    const env = { CAPTURE_RESULTS: 'a\n\n b \n', CAPTURE_TO: 's3://other', CAPTURE_KEEP: '1' };
    const { settings } = parsed(['--results', 'c', '--reclaim', 'auto', '--to', 's3://lab', ...TASK], env);
    expect(settings).toMatchObject({
      manifest: { results: ['c'] },
      to: { url: 's3://lab' },
      reclaim: 'auto',
    });
    expect(parsed(TASK, env).settings.manifest.results).toEqual(['a', 'b']);
    expect(parsed(['--reclaim', 'auto', ...TASK], { CAPTURE_RECLAIM: 'never' }).settings.reclaim).toBe(
      'auto',
    );
  });

  it.each(['0', 'false', ''])('leaves a flag off with %j', (text) => {
    expect(parsed(TASK, { CAPTURE_KEEP: text, CAPTURE_NO_RESTORE: text }).settings).toMatchObject({
      reclaim: 'auto',
      restore: true,
    });
  });

  it('gives a warning for a variable that was probably meant to be a twin', () => {
    const env = {
      CAPTURE_RESULT: 'a',
      CAPTURE_SIGIGN: '0',
      CAPTURE_NOFILE: '1024',
      CAPTURED_RUN: 'x',
      CAPTURE_SCREEN_COLOURS: '1',
      // Of capture array, submit and worker.
      CAPTURE_QUEUE: 'redis://head/lab',
      CAPTURE_RETRIES: '2',
    };
    const { warnings } = parsed(['-r', 'a', '--to', '/s', ...TASK], env);
    expect(warnings).toEqual([
      { message: expect.stringContaining('CAPTURE_RESULT '), hint: 'CAPTURE_RESULTS' },
    ]);
  });
});

describe('the command', () => {
  it('is run, unless its name comes first', () => {
    expect(parsed(TASK)).toMatchObject({
      kind: 'run',
      task: { command: './task', args: ['-r', 'x'] },
      dryRun: false,
    });
    expect(parsed(['run', '--dry-run', ...TASK])).toMatchObject({ kind: 'run', dryRun: true });
    expect(parsed(['--', 'watch'])).toMatchObject({ kind: 'run', task: { command: 'watch', args: [] } });
    expect(parsed(['watch', '-r', 'a', '--dry-run'])).toMatchObject({ kind: 'watch', dryRun: true });
    expect(parsed(['restore', '-k', 'a'])).toMatchObject({
      kind: 'restore',
      settings: { restore: true, identity: { taskName: 'task', argv: [] } },
    });
  });

  it('leaves the arguments of the task alone, even another --', () => {
    expect(parsed(['-r', 'a', '--', 'sh', '-c', 'x', '--', '--help', ''])).toMatchObject({
      task: { command: 'sh', args: ['-c', 'x', '--', '--help', ''] },
    });
  });

  it('takes the twins of its own options only', () => {
    expect(parsed(['watch', '-r', 'a'], { CAPTURE_SKIP_DONE: 'nonsense' }).settings.skipDone).toBe(false);
  });
});

it('no option that takes a value ever swallows the task', () => {
  const name = fc.constantFrom(
    ...optionsOf('run').flatMap(({ name, group }) => (group === optionOf('results').group ? [name] : [])),
  );
  const word = fc.stringMatching(/^[a-z*][a-z0-9*.]{0,5}$/);
  const option = fc
    .tuple(name, word, fc.boolean())
    .map(([list, text, joined]) => (joined ? [`--${list}=${text}`] : [`--${list}`, text]));
  fc.assert(
    fc.property(
      fc.array(option, { maxLength: 6 }),
      fc.array(fc.string(), { maxLength: 4 }),
      (options, args) => {
        const result = parsed([...options.flat(), '--', 'task', ...args]);
        expect(result).toMatchObject({ kind: 'run', task: { command: 'task', args } });
        const { results, checkpoints, inputs, companions, exclude } = result.settings.manifest;
        const patterns = [...results, ...checkpoints, ...inputs, ...companions, ...exclude];
        const given = new Set(options.map((words) => words.join('=')));
        expect(new Set(patterns.length === 0 ? [] : given).size).toBe(patterns.length);
      },
    ),
  );
  // An option that lacks its value does not take the `--` for it.
  expect(parse(['--results', '--', './task'])).toMatchObject({ kind: 'mistakes' });
});

describe('a manifest file', () => {
  const files = (texts: Readonly<Record<string, string>>) => ({
    ...noFiles,
    readText: (file: string) => texts[file] ?? '',
  });

  it('holds one pattern a line, with comments', () => {
    const outside = files({ '/list': '# results\nr.dat\r\n\n  ./out/*.x  \n\\@literal\nr.dat\n' });
    expect(parsed(['-r', '@list', '-r', 'z', ...TASK], {}, outside).settings.manifest.results).toEqual([
      'r.dat',
      'out/*.x',
      '\\@literal',
      'z',
    ]);
  });

  it('is not meant by \\@name, nor by a glob that begins with @(', () => {
    expect(parsed(['-r', '\\@a', '-r', '@(a|b).x', ...TASK]).settings.manifest.results).toEqual([
      '\\@a',
      '@(a|b).x',
    ]);
  });

  it('of ten thousand names is read within the time of a start', () => {
    const names = Array.from({ length: 10_000 }, (_, at) => `out/r${at}.dat`);
    const { settings } = parsed(['-r', '@list', ...TASK], {}, files({ '/list': names.join('\n') }));
    expect(settings.manifest.results).toEqual(names);
  });
});

describe('a warning', () => {
  it('is given in a job of Slurm whose script waits for capture', () => {
    const parent = () => ({ argv: ['/bin/bash', '/var/spool/job00007/slurm_script'], catches: 0n });
    const line = ['-r', 'a', '--to', 's3://lab', ...TASK];
    const { warnings } = parsed(line, { SLURM_JOB_ID: '7' }, { ...noFiles, parent });
    expect(warnings).toEqual([
      { message: expect.stringContaining('--signal=B:'), hint: expect.stringContaining('exec capture') },
    ]);
    expect(parsed(line, {}, { ...noFiles, parent }).warnings).toEqual([]);
  });

  it('is given once when nothing is declared', () => {
    expect(parsed(TASK).warnings).toEqual([
      { message: expect.stringContaining('nothing is declared'), hint: expect.any(String) },
    ]);
  });

  it('is not given to a restore, which brings the stored checkpoint all the same', () => {
    expect(parsed(['restore', '--to', 's3://lab']).warnings).toEqual([]);
  });

  it('is given when there is no --to', () => {
    expect(parsed(['-r', 'a', ...TASK]).warnings).toEqual([
      {
        message: expect.stringContaining('/capture-store, which is lost'),
        hint: '--to s3://bucket/prefix',
      },
    ]);
  });

  it('is given for a status that a shell has of a signal', () => {
    const line = ['-r', 'a', '--to', 's3://lab', '--trust-exit', '137', '--again-status', '143', ...TASK];
    expect(parsed(line).warnings.map(({ message }) => message)).toEqual([
      '--trust-exit 137 is also what a task ends with that signal 9 has killed: what this cut short would count as whole',
      '--again-status 143 is also what a task ends with that signal 15 has killed: what this cut short would count as whole',
    ]);
  });

  it('is not given when all is well', () => {
    expect(parsed(['-r', 'a', '--to', 's3://lab', ...TASK]).warnings).toEqual([]);
  });
});
