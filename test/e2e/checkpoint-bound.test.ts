// The newest committed set is young, whatever the names and the pace; what falls out of it is deleted; and what it is
// worth is never claimed to be more than is known.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Generation } from '../../src/model/format/records.ts';
import { TELL_ALL } from '../support/messages.ts';
import { letGoOn, UNTIL_SET } from './letting-go-on.ts';
import { BIN, killTree, openPlace, until, type Place, type Run } from './support.ts';

let place: Place;
beforeEach(() => {
  place = openPlace();
});
afterEach(() => place.close());

const sh = (script: string): string[] => ['sh', '-c', script];
const generations = (): readonly Generation[] => place.records().at(-1)?.record.generations ?? [];
/** The paths of the newest set. */
const newest = (): readonly string[] => (generations()[0]?.members ?? []).map(({ path }) => path).toSorted();
const named = (): readonly string[] =>
  [...new Set(generations().flatMap(({ members }) => members.map(({ key }) => key)))].toSorted();

async function killed(run: Run): Promise<void> {
  killTree(run.pid);
  await run.status;
  place.freshWork();
}

describe('a task that never rests', () => {
  /** Far beyond the test: no pause shows anything. */
  const restless = ['--checkpoint-settle', '10m', '--task-name', 't'];
  /** Less than the task rests between two steps. */
  const PAUSES = ['--checkpoint-settle', '50ms', '--task-name', 't'] as const;
  const paceOf = (options: readonly string[]): readonly string[] =>
    options.includes(PAUSES[0]) ? [] : restless;
  const good = (): readonly Generation[] =>
    generations().filter(({ instant, incomplete }) => !instant && !incomplete);
  const every = (body: string): string[] => sh(`i=0; while :; do i=$((i+1)); ${body}; sleep 0.1; done`);

  it.each([
    ['one file of a glob', ['-k', '*.chk'], 'echo $i > a.chk', 'round'],
    ['several', ['-k', '*.chk'], 'echo $i > a.chk; echo $i > b.chk', 'round'],
    ['a directory', ['-k', 'state/'], 'echo $i > state/a; echo $i > state/b', 'round'],
    [
      'names that alternate',
      ['-k', '[ab].chk'],
      'case $((i%2)) in 0) echo $i > a.chk;; *) echo $i > b.chk;; esac',
      'round',
    ],
    [
      'names that are numbered, a pause apart',
      ['-k', 'm.*.chk', '--newest', '2', ...PAUSES],
      'echo $i > m.$i.chk',
      'round',
    ],
    [
      'a directory for each step',
      ['-k', 'step-*/', '--newest', '2'],
      'mkdir step-$i; echo $i > step-$i/a; echo $i > step-$i/b',
      'unit',
    ],
  ])('has proven sets: %s', async (_, options, body, proof) => {
    // Of files that are found in a new directory nobody knows the order.
    fs.mkdirSync(place.at('state'));
    const run = place.run([...options, ...paceOf(options)], every(body));
    await until(() => good().length >= 2, 'two good generations', 20_000);
    expect(new Set(good().map((one) => one.proof))).toEqual(new Set([proof]));
    await killed(run);
  });

  it.each([
    // More files than are sent at once: the others wait, and their names go meanwhile.
    [
      'directories',
      ['-k', 'step-*/'],
      'mkdir step-$i; for f in $FILES; do $NEW > step-$i/$f; done; rm -rf step-$((i-2))',
    ],
    // Numbered names are one set each where a pause tells so, from the third on.
    ['files', ['-k', 'ck.*', ...PAUSES], '$NEW > ck.$i; rm -f ck.$((i-2))'],
    ['one name', ['-k', 'ck'], '$NEW > tmp; mv tmp ck'],
  ])(
    'has sets over a link that carries one in many, of which it keeps the newest two: %s',
    async (_, options, body) => {
      const NEW = 'head -c 300000 /dev/urandom';
      const FILES = 'a b c d e f g h i j k l';
      const link = ['--newest', '1', '--bandwidth', '2MB/s'];
      const run = place.run([...options, ...link, ...paceOf(options)], every(body), { NEW, FILES });
      await until(() => (generations()[0]?.generation ?? 0) > 3, 'some sets', 40_000);
      const areGood = (): boolean =>
        generations().every(({ instant, incomplete }) => !instant && !incomplete);
      if (options.includes(PAUSES[0])) await until(areGood, 'only sets of a known order');
      expect(areGood()).toBe(true);
      await killed(run);
    },
    60_000,
  );

  it('has a set of an instant within ten seconds where nothing proves one, and goes on from it', async () => {
    // `never` is declared, and dates tell nobody what belongs together.
    const options = ['-k', 'ck-*', '-k', 'never', ...restless];
    const run = place.run(options, every('echo $i > ck-1-$i'));
    await until(() => generations().length > 0, 'a generation', 20_000);
    expect(generations()[0]?.instant).toBe(true);
    await killed(run);
    const next = place.run([...options, '--dry-run'], ['true']);
    await next.status;
    expect(next.stdout()).toContain('restore: checkpoint 1-');
  }, 40_000);

  it('is told which file keeps a set from being cut within the bound', async () => {
    const run = place.run(
      ['-k', 'a', '-k', 'b', ...restless],
      sh('echo 0 > b; exec 3>>b; i=0; while :; do i=$((i+1)); echo $i > a; sleep 0.1; done'),
    );
    await run.says(
      /the newest checkpoint is older than what was closed \d+\.\d s ago: b is being written each time that one is due\n {2}try: close it/,
    );
    expect(generations()).toEqual([]);
    await killed(run);
  }, 40_000);
});

it('a file that can never be stored is asked for once, however many sets need it', async () => {
  const task =
    'echo 1 > k; ln -s /etc l; "$B" flush; echo "flush $?"; echo 2 > k; "$B" flush; echo "again $?"';
  const run = place.run(['-k', 'k', '-k', 'l', '--task-name', 't'], sh(`${task}; sleep 600`), { B: BIN });
  await run.says(/again \d/);
  expect(run.stderr().match(/checkpoint l is not stored/g)).toHaveLength(1);
  expect(generations()).toEqual([]);
  await killed(run);
});

describe('a directory that is written file by file', () => {
  const options = ['-k', 'ck-*/**', '--checkpoint-settle', '100ms', '--task-name', 't'];

  it('is in no set before the next one begins, however long it rests', async () => {
    const run = place.run(
      options,
      sh(
        'mkdir ck-1 ck-2; echo 1 > ck-1/a; sleep 0.5; echo 1 > ck-1/b; echo 2 > ck-2/a; until [ -e stop ]; do sleep 0.1; done',
      ),
    );
    await until(() => generations().length > 0, 'a generation');
    expect(newest()).toEqual(['ck-1/a', 'ck-1/b']);
    expect(generations()).toHaveLength(1);
    await killed(run);
  });

  it('is in the set at once when it is renamed into place', async () => {
    const run = place.run(
      [...options, '--checkpoint-settle', '10m'],
      sh('mkdir tmp; echo 1 > tmp/a; echo 1 > tmp/b; mv tmp ck-1; sleep 600'),
    );
    await until(() => generations().length > 0, 'a generation');
    expect(newest()).toEqual(['ck-1/a', 'ck-1/b']);
    await killed(run);
  });

  it('is in the set when the task says so', async () => {
    const run = place.run(
      [...options, '--checkpoint-settle', '10m'],
      sh('mkdir ck-1; echo 1 > ck-1/a; echo 1 > ck-1/b; "$B" flush; echo "flush $?"; sleep 600'),
      { B: BIN },
    );
    await run.says('flush 0');
    expect(newest()).toEqual(['ck-1/a', 'ck-1/b']);
    await killed(run);
  });

  it('names the file that is written after the one of --checkpoint-last', async () => {
    const run = place.run(
      [...options, '--checkpoint-last', '*/time'],
      sh('mkdir ck-1; sleep 0.3; echo 1 > ck-1/time; sleep 0.3; echo 1 > ck-1/props; sleep 600'),
    );
    await run.says("ck-1/props is closed after the file that --checkpoint-last '*/time' names");
    await killed(run);
    expect(run.stderr().match(/closed after the file/g)).toHaveLength(1);
  });
});

describe('a pause in the middle of a known round', () => {
  it('makes no set of two rounds', async () => {
    const run = place.run(
      ['-k', 'a', '-k', 'b', '--checkpoint-settle', '100ms', '--task-name', 't', ...TELL_ALL],
      sh(
        `for i in 1 2 3; do echo $i > a; echo $i > b; ${UNTIL_SET}; done; echo 4 > a; sleep 1; echo paused; sleep 600`,
      ),
    );
    await letGoOn(run, place, 3);
    await run.says('paused');
    await killed(run);
    const next = place.run(['-k', 'a', '-k', 'b', '--task-name', 't'], ['cat', 'a', 'b']);
    expect(await next.status, next.stderr()).toBe(0);
    expect(next.stdout()).toBe('3\n3\n');
  });
});

describe('what falls out of the set', () => {
  const write = (first: number, last: number): string[] =>
    sh(`for i in $(seq ${first} ${last}); do echo $i > tmp; mv tmp ck.$i; sleep 0.05; done; $END`);

  it.each([
    ['by --newest', ['--newest', '2'], ''],
    ['because the task removes it', [], 'rm -f ck.$((i-2));'],
  ])('%s is deleted from the store', async (_, options, remove) => {
    const script = `for i in $(seq 12); do echo $i > tmp; mv tmp ck.$i; ${remove} sleep 0.05; done`;
    const run = place.run(['-k', 'ck.*', '--checkpoint-settle', '100ms', ...options], sh(script));
    expect(await run.status, run.stderr()).toBe(0);
    expect(newest()).toEqual(['ck.11', 'ck.12']);
    expect([...place.keys()].toSorted()).toEqual(named());
  });

  it('is deleted also where an earlier attempt has left it', async () => {
    const options = ['-k', 'ck.*', '--newest', '2', '--checkpoint-settle', '100ms', '--task-name', 't'];
    const first = place.run(options, write(1, 6), { END: 'sleep 600' });
    await until(() => newest().join(' ') === 'ck.5 ck.6', 'the sixth');
    await killed(first);
    const second = place.run(options, write(7, 12), { END: '' });
    expect(await second.status, second.stderr()).toBe(0);
    expect(newest()).toEqual(['ck.11', 'ck.12']);
    expect([...place.keys()].toSorted()).toEqual(named());
  });
});

describe('a checkpoint from which the task fails', () => {
  it('gives way to the one before it after two attempts', async () => {
    const options = ['-k', 'k', '--task-name', 't', '--reclaim', 'never'];
    const made = place.run([...options, ...TELL_ALL], sh(`for i in 1 2; do echo $i > k; ${UNTIL_SET}; done`));
    await letGoOn(made, place, 2);
    expect(await made.status, made.stderr()).toBe(0);
    const from: string[] = [];
    for (let attempt = 0; attempt < 3; attempt += 1) {
      place.freshWork();
      const run = place.run(options, sh('echo "from $(cat k)"; exit 9'));
      // oxlint-disable-next-line no-await-in-loop -- one attempt after the other
      expect(await run.status).toBe(9);
      from.push(run.stdout().trim());
      if (attempt === 2) expect(run.stderr()).toContain('failed again and again from checkpoint 1-2');
    }
    expect(from).toEqual(['from 2', 'from 2', 'from 1']);
  });
});
