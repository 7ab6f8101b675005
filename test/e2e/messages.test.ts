// What the user reads of a run: its first lines, its last one, and little between them; and what a program reads.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { told, TELL_ALL, unstamped } from '../support/messages.ts';
import { screen } from '../support/screen.ts';
import { openS3Place } from './s3-place.ts';
import { BIN, openPlace, type Place } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const FILES = ['--index', '3', '-k', 'k.chk', '-r', 'r.*'];
const lines = (text: string): readonly string[] => unstamped(text).trim().split('\n');

/** Closes its checkpoint three times, each time for good. */
const THREE = 'for i in 1 2 3; do echo $i > k.chk; "$0" flush || exit; done; echo r > r.1';

async function run(script: string, options: readonly string[] = []): Promise<string> {
  const started = place.run([...FILES, ...options], ['sh', '-c', script, BIN]);
  await started.status;
  return started.stderr();
}

describe('the first lines', () => {
  it('say that there is nothing to resume from, and then what the next attempt resumes from', async () => {
    expect(lines(await run(THREE))[1]).toBe('capture: nothing to resume from');
    place.freshWork();
    expect(unstamped(await run('cat k.chk'))).toMatch(
      /^capture: resumed from checkpoint 1-3 \(1 file, 2 B, \d+ s old\)$/m,
    );
  });

  it('name the task name under which this index has checkpoints, when it has none under its own', async () => {
    await run(THREE);
    place.freshWork();
    const [, second, hint] = lines(await run(THREE, ['--task-name', 'renamed']));
    expect([second, hint]).toEqual([
      'capture: nothing to resume from',
      '  try: --task-name sh: this index has checkpoints under that name',
    ]);
    place.freshWork();
    const other = await run(THREE, ['--task-name', 'another', '--index', '4']);
    expect(other).not.toContain('try: --task-name');
  });

  it.each([
    ['capture restore', []],
    ['capture restore, nothing declared', undefined],
    ['capture restore --handoff', ['--handoff']],
  ])('name it for %s, too', async (_, options) => {
    await run(THREE);
    place.freshWork();
    const files = options === undefined ? [] : ['-k', 'k.chk', ...options];
    const restore = place.capture(['restore', '--to', place.store, '--index', '3', ...files]);
    expect(await restore.status, restore.stderr()).toBe(0);
    expect(unstamped(restore.stderr())).toContain(
      'capture: nothing to resume from\n  try: --task-name sh: this index has checkpoints under that name\n',
    );
  });

  it('say nothing of it to a task that declares no checkpoints', async () => {
    const only = place.run(['-r', 'r.*'], ['true']);
    await only.status;
    expect(only.stderr()).not.toContain('resume');
  });
});

describe('a run that goes well', () => {
  it('says its start, its first checkpoint and its end, and no more', async () => {
    expect(lines(await run(THREE)).map((line) => line.replace(/^capture: /, '').slice(0, 22))).toEqual([
      'task sh, index 3, atte',
      'nothing to resume from',
      'checkpoint 1-1 is safe',
      'stored 1 result (2 B);',
      '  try: to bring back w',
    ]);
  });

  it('tells a program each file and each checkpoint, with index, attempt, path, key, bytes and time', async () => {
    const all = told(await run(THREE, TELL_ALL));
    for (const one of all) expect(one).toMatchObject({ index: '3', event: expect.any(String) });
    for (const one of all.slice(all.findIndex(({ event }) => event === 'start')))
      expect(one).toMatchObject({ attempt: 1 });
    const of = (event: string): readonly unknown[] => all.filter((one) => one.event === event);
    expect(of('start')).toMatchObject([{ task: 'sh', workdir: place.work, to: `file://${place.store}` }]);
    expect(of('fresh')).toHaveLength(1);
    expect(of('checkpoint')).toMatchObject(
      ['1-1', '1-2', '1-3'].map((generation) => ({ generation, files: 1, bytes: 2, suspect: false })),
    );
    expect(of('stored')).toContainEqual(
      expect.objectContaining({
        role: 'result',
        path: 'r.1',
        key: 'r.1.3',
        bytes: 2,
        ms: expect.any(Number),
      }),
    );
    expect(of('end')).toMatchObject([{ kind: 'done', status: 0, results: 1, checkpoints: 3, left: [] }]);
  });
});

describe('the first checkpoint of a task whose process has just ended', () => {
  it('is said at info when it is proven, and not before', async () => {
    const committed = 'until ls ../store/.capture/sh/3 | grep -q checkpoint; do :; done; echo committed >&2';
    const said = lines(await run(`/bin/true; echo 1 > k.chk; ${committed}`));
    const at = said.findIndex((line) => line.startsWith('capture: checkpoint 1-1 is safe (1 file'));
    expect(at).toBeGreaterThan(said.indexOf('committed'));
    expect(said).toContain('committed');
    expect(said.filter((line) => line.includes('checkpoint 1-1'))).toHaveLength(1);
  });
});

describe('the last line of a task that fails', () => {
  it.each([
    ['exit 3', 'capture: failed: the task ended with 3; stored '],
    ['kill -SEGV $$', 'capture: failed: SIGSEGV ended the task, exit 139; stored '],
    ['ln -s /etc r.1', 'capture: failed, exit 74; NOT stored: r.1 ('],
  ])('begins with the failure: %s', async (script, beginning) => {
    expect(
      lines(await run(script))
        .at(-1)
        ?.slice(0, beginning.length),
    ).toBe(beginning);
  });
});

it('a set that may be half-written is not called safe, and none is preferred that is not there', async () => {
  const said = await run('exec 3>k.chk; echo 1 >&3; kill -KILL $$');
  expect(said).not.toContain('prefers the one before');
  expect(said).toContain('may be half-written');
  expect(said).toContain('there is no other, so restore takes it all the same');
});

it('a file that was restored and then removed by the task is not said to have matched never', async () => {
  await run(THREE);
  place.freshWork();
  const said = await run('rm k.chk; echo r > r.1');
  expect(said).toContain('resumed from checkpoint 1-3');
  expect(said).not.toMatch(/never (matched|came)/);
});

it('a drain that takes longer than a second shows on a terminal how far it is, and leaves whole lines', async () => {
  const far = await openS3Place();
  try {
    let release = (): void => undefined;
    const until = new Promise<void>((resolve) => {
      release = resolve;
    });
    far.server.fault = ({ key }) => (key.endsWith('r.2.0') ? { kind: 'delay', until } : undefined);
    const task = `sh -c 'head -c 3000000 /dev/urandom > r.1; echo x > r.2'`;
    const line = `${BIN} --to s3://${far.server.bucket}/run --path-style -r 'r.*' -- ${task}`;
    const run = far.place.exec(['script', '-qec', line, '/dev/null'], {
      ...far.server.env,
      AWS_CONFIG_FILE: '/dev/null',
      AWS_SHARED_CREDENTIALS_FILE: '/dev/null',
      AWS_EC2_METADATA_DISABLED: 'true',
    });
    await run.says(/storing: \d of \d files?, .* of .*\/s/);
    release();
    expect(await run.status, run.stdout()).toBe(0);
    const rows = screen(run.stdout());
    // Names of directories may be long: the first line may wrap.
    expect(rows.filter((row) => row.startsWith('capture')).map((row) => row.slice(0, 25))).toEqual([
      'capture: task sh, attempt',
      'capture: stored 2 results',
    ]);
    expect(rows.join('')).not.toContain('storing');
  } finally {
    await far.close();
  }
});
