// --verify-checkpoint: the user's own check decides which set is good, at a restore and before a commit.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TELL_ALL } from '../support/messages.ts';
import { letGoOn, UNTIL_SET } from './letting-go-on.ts';
import { openPlace, type Place, type Run } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const sh = (script: string): string[] => ['sh', '-c', script];
const generations = (): readonly string[] =>
  (place.records().at(-1)?.record.generations ?? []).map(
    ({ attempt, generation, suspect }) => `${attempt}-${generation}${suspect === true ? ' suspect' : ''}`,
  );

/** Sets 1 and 2 of one file, and one more of which a death makes a suspect when `status` is not 0. */
async function store(status = 0): Promise<void> {
  const write = `sh -c 'exec 3> k.chk; echo $0 >&3; kill -9 $$' $i`;
  const script = `for i in 1 2; do ${write}; [ $i = 1 ] && : > extra; ${UNTIL_SET}; done; exit ${status}`;
  const run = place.run(['-k', 'k.chk', ...TELL_ALL], sh(script));
  await letGoOn(run, place, 2);
  expect(await run.status).toBe(status);
  place.freshWork();
}

function resume(options: readonly string[], status = 0): Run {
  return place.run(
    ['-k', 'k.chk', '--task-name', 'sh', ...options],
    sh(`cat k.chk; echo from $CAPTURED_RESTORED; exit ${status}`),
  );
}

describe('a check at the restore', () => {
  it('that fails makes the run resume from the set before, and from then on that one is the good one', async () => {
    await store();
    const check = 'echo "checks $CAPTURED_GENERATION" >&2; grep -q 1 k.chk';
    const run = resume(['--verify-checkpoint', check], 3);
    expect(await run.status, run.stderr()).toBe(3);
    expect(run.stdout()).toBe('1\nfrom 1-1\n');
    expect(run.stderr()).toMatch(
      /checks 1-2\n[^]*1-2 cannot be restored \(its check ended with 1\)[^]*checks 1-1\n/,
    );
    expect(generations()).toEqual(['1-2 suspect', '1-1']);
    expect(fs.existsSync(place.at('.capture/aside'))).toBe(false);
  });

  it('that passes takes a suspect set in its turn, and clears it', async () => {
    await store(1);
    expect(generations()).toEqual(['1-2 suspect', '1-1']);
    const without = resume(['--dry-run']);
    await without.status;
    expect(without.stdout()).toContain('restore: checkpoint 1-1');
    const run = resume(['--verify-checkpoint', 'test -s k.chk']);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('2\nfrom 1-2\n');
    expect(generations()).toEqual(['1-2', '1-1']);
  });

  it('that no set passes ends with 69 before the task starts, and leaves nothing behind', async () => {
    await store();
    const run = resume(['--verify-checkpoint', 'no-such-program']);
    expect(await run.status).toBe(69);
    expect(run.stdout()).toBe('');
    expect(run.stderr()).toContain('its check ended with 127');
    expect(fs.existsSync(place.at('k.chk'))).toBe(false);
  });

  it('that fails moves a local companion aside that is longer than what is stored of it', async () => {
    const script = `exec 3>log; for i in 1 2; do echo $i >&3; echo $i > k.chk; ${UNTIL_SET}; done`;
    const options = ['-k', 'k.chk', '--companions', 'log'];
    const first = place.run([...options, '--keep', ...TELL_ALL], sh(script));
    await letGoOn(first, place, 2);
    expect(await first.status).toBe(0);
    fs.appendFileSync(place.at('log'), 'not in the store\n');
    const run = resume([...options.slice(2), '--verify-checkpoint', 'grep -q 1 k.chk']);
    expect(await run.status, run.stderr()).toBe(0);
    expect(run.stdout()).toBe('1\nfrom 1-1\n');
    expect(run.stderr()).toContain(
      'log is longer here than in the store: the local one is now .capture/aside/1-log',
    );
    expect(fs.readFileSync(place.at('.capture/aside/1-log'), 'utf8')).toBe('1\n2\nnot in the store\n');
    // The set before has its own.
    expect(fs.readFileSync(place.at('log'), 'utf8')).toMatch(/^1\n/);
  });

  it('is made by capture restore, too', async () => {
    await store();
    const run = place.capture([
      'restore',
      '--to',
      place.store,
      '-k',
      'k.chk',
      '--task-name',
      'sh',
      '--verify-checkpoint',
      'grep -q 1 k.chk',
    ]);
    expect(await run.status, run.stderr()).toBe(0);
    expect(fs.readFileSync(place.at('k.chk'), 'utf8')).toBe('1\n');
  });
});

describe('a check before the commit', () => {
  const options = ['-k', 'k.chk', '--verify-at', 'commit', '--verify-checkpoint'];

  it('that fails keeps the set from being committed, until it is closed again', async () => {
    const script =
      'echo bad > k.chk; until [ -e go ]; do sleep 0.02; done; echo good > k.chk; until [ -e end ]; do sleep 0.02; done';
    const run = place.run([...options, 'grep -q good k.chk'], sh(script));
    await run.says('a checkpoint is not committed: its check ended with 1');
    expect(place.records().some(({ record }) => record.kind === 'checkpoint')).toBe(false);
    fs.writeFileSync(place.at('go'), '');
    await run.says('is safe');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(0);
    expect(generations()).toHaveLength(1);
  });

  it('gives the set up when the task goes on before the check has ended', async () => {
    const check =
      'echo checking >&2; test -e waited || { : > waited; until [ -e moved ]; do sleep 0.02; done; }';
    const script =
      'echo 1 > k.chk; until [ -e waited ]; do sleep 0.02; done; echo 2 > k.chk; : > moved; until [ -e end ]; do sleep 0.02; done';
    const run = place.run([...options, check], sh(script));
    await run.says('is safe');
    fs.writeFileSync(place.at('end'), '');
    expect(await run.status, run.stderr()).toBe(0);
    const members = place
      .records()
      .at(-1)
      ?.record.generations.flatMap((generation) => generation.members);
    expect(members?.map(({ key }) => place.text(key))).toEqual(['2\n']);
  });

  it('makes the last set good that a death may have torn, or suspect when it fails', async () => {
    expect(await place.run([...options, 'true'], sh('echo 1 > k.chk; exit 1')).status).toBe(1);
    expect(generations()).toEqual([expect.stringMatching(/^1-\d+$/)]);
    place.freshWork();
    const bad = place.run([...options, 'grep -q good k.chk'], sh('echo bad > k.chk'));
    expect(await bad.status).toBe(0);
    expect(bad.stderr()).toMatch(
      /checkpoint 2-\d+ is stored, and marked suspect, as its check ended with 1 \(1 file/,
    );
    expect(bad.stderr()).not.toContain('half-written');
    expect(generations()[0]).toMatch(/^2-\d+ suspect$/);
  });
});
