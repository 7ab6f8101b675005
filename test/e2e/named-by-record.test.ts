// The good name of a result belongs to the content that the task closed last, whoever dies when: what was closed is
// stored at once, and an older content under the good name counts only as what it is.
import fs from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CaptureRecord } from '../../src/model/format/records.ts';
import { newDeferred } from '../../src/model/waiting.ts';
import type { Incoming } from '../s3-server/server.ts';
import { openS3Place, type S3Place } from './s3-place.ts';
import { childrenOf, killTree, openPlace, sidecarOf, until, type Place, type Run } from './support.ts';

/** The end of `cat` closes it, and may have been a death. */
const ENDED = (text: string, name: string): string => `echo ${text} | cat > ${name}`;
/** No death renames a file. */
const CHECKPOINT = (text: string): string => `echo ${text} > k.tmp; mv k.tmp k.chk`;
const UNTIL = (name: string): string => `until [ -e ${name} ]; do :; done`;

/** The key of an object that a set holds of a result that was not stored yet. */
const SEGMENT = /\.\d+-\d+\.\d+(?:\.zst)?$/;

describe('in a directory', () => {
  let place: Place;
  beforeEach(() => {
    place = openPlace();
  });
  afterEach(() => place.close());

  const options = ['-r', '*.dat', '-k', 'k.chk', '--task-name', 't'];
  const last = (): CaptureRecord | undefined => place.records().at(-1)?.record;
  const start = (script: string): Run => place.run(options, ['sh', '-c', script], { S: place.store });
  const end = async (script: string, status = 0): Promise<Run> => {
    const run = start(script);
    expect(await run.status, run.stderr()).toBe(status);
    return run;
  };
  const say = (name: string): void => fs.writeFileSync(place.at(name), '');
  const task = (run: Run): number => childrenOf(run.pid).find((pid) => pid !== sidecarOf(run.pid)) ?? -1;
  /** Keys of objects that hold this content of a result, under whatever name. */
  const holding = (path: string, text: string): readonly string[] =>
    place.keys().filter((key) => key.startsWith(`${path}.`) && place.text(key) === text);

  const CLOSES = (text: string): string => `while [ ! -e go ]; do ${ENDED(text, 'r.dat')}; done`;
  const DIES = 'exec 3>r.dat; echo torn >&3; : > torn; until [ -e never ]; do :; done';
  /** A death may have made the whole state as well, of whatever the task's main process has died. */
  const closedAndTorn = async (script: string, signal: NodeJS.Signals): Promise<Run> => {
    const first = start(`${script}; ${DIES}`);
    await until(() => holding('r.dat', 'good\n').length > 0, 'any object that holds what was closed');
    say('go');
    await until(() => fs.existsSync(place.at('torn')), 'the half-written result');
    await until(() => last()?.generations.length === 1, 'the checkpoint');
    process.kill(task(first), signal);
    await first.status;
    place.freshWork();
    return first;
  };

  it.each([
    ['SIGKILL', 137],
    ['SIGTERM', 143],
  ] as const)(
    'a result that is closed whole, again and again, is stored before its doubt is settled, and %s does not cost it',
    async (signal, status) => {
      const first = await closedAndTorn(`${CHECKPOINT('1')}; ${CLOSES('good')}`, signal);
      expect(await first.status, first.stderr()).toBe(status);
      expect(holding('r.dat', 'good\n')).toHaveLength(1);
      expect(holding('r.dat', 'torn\n')).toHaveLength(1);
      const second = await end('cat k.chk', 74);
      // Nobody knows which of them is whole, if any.
      expect(place.keys()).not.toContain('r.dat.0');
      for (const text of ['good\n', 'torn\n'])
        expect(second.stderr()).toContain(`${holding('r.dat', text)[0]}`);
      expect(last()?.left.map(({ path }) => path)).toEqual(['r.dat']);
    },
  );

  it('a result that a death has cut gets its name from no attempt that finds it in the work directory and ends with 0', async () => {
    const first = start(DIES);
    await until(() => fs.existsSync(place.at('torn')), 'the half-written result');
    process.kill(task(first), 'SIGKILL');
    expect(await first.status, first.stderr()).toBe(137);
    await end('cat r.dat', 74);
    expect(place.keys()).not.toContain('r.dat.0');
    expect(last()?.left.map(({ path }) => path)).toEqual(['r.dat']);
    await end('echo whole > r.dat');
    expect(place.text('r.dat.0')).toBe('whole\n');
    expect(holding('r.dat', 'torn\n')).toEqual([]);
  });

  it('a result that its living task has closed keeps its name when SIGTERM comes in the middle of the next write', async () => {
    const first = await closedAndTorn(`echo good > r.dat; ${UNTIL('go')}; ${CHECKPOINT('1')}`, 'SIGTERM');
    expect(await first.status, first.stderr()).toBe(143);
    expect(place.text('r.dat.0')).toBe('good\n');
    // The next write that the death cut is left: the task has not made it again.
    await end('cat k.chk', 74);
    expect(place.text('r.dat.0')).toBe('good\n');
    expect(holding('r.dat', 'torn\n')).toContain('r.dat.0.partial-1');
  });

  it('a staged result has its name, and is reclaimed with --reclaim now, as soon as its doubt is settled', async () => {
    const run = place.run(
      [...options, '--reclaim', 'now'],
      ['sh', '-c', `${ENDED('good', 'r.dat')}; ${UNTIL('go')}`],
    );
    await until(() => last()?.partials.length === 1, 'a record that names the staged object');
    await until(() => !fs.existsSync(place.at('r.dat')), 'the local file to be reclaimed');
    expect(place.keys()).toEqual(['r.dat.0']);
    expect(last()).toMatchObject({ partials: [], results: [{ key: 'r.dat.0' }] });
    say('go');
    expect(await run.status, run.stderr()).toBe(0);
  });

  it.each([
    ['nothing else is stored of it', 'exec 3>r.dat'],
    ['it is stored whole', `echo whole > r.dat; ${UNTIL('$S/r.dat.0')}; exec 3>r.dat`],
  ])('a result that a death left empty is nothing to keep when %s', async (_, script) => {
    const first = place.run(options, ['sh', '-c', `${CHECKPOINT('1')}; ${script}; kill -9 $$`], {
      S: place.store,
    });
    expect(await first.status, first.stderr()).toBe(137);
    place.freshWork();
    const second = await end('cat k.chk');
    expect(second.stderr()).not.toMatch(/NOT stored|half-written/);
    expect(last()?.left).toEqual([]);
  });

  it('a result that comes again with the same content leaves nothing beside it', async () => {
    const results = (): readonly string[] => place.keys().filter((key) => key.startsWith('r.dat'));
    for (const attempt of [1, 2]) {
      const run = start(`${ENDED('same', 'r.dat')}; ${CHECKPOINT(`${attempt}`)}; ${UNTIL('go')}`);
      await until(() => last()?.generations[0]?.attempt === attempt, `the checkpoint of attempt ${attempt}`);
      say('go');
      expect(await run.status, run.stderr()).toBe(0);
      expect(results()).toEqual(['r.dat.0']);
      place.freshWork();
    }
    const before = place.keys();
    const third = await end('cat k.chk');
    expect(third.stderr()).not.toMatch(/NOT stored|is lost|stored nowhere/);
    expect(place.keys()).toEqual(before);
    expect(before.filter((key) => SEGMENT.test(key))).toEqual([]);
  });
});

describe('on S3', () => {
  let s3: S3Place;
  beforeEach(async () => {
    s3 = await openS3Place();
  });
  afterEach(() => s3.close());

  const options = ['-r', 'r.dat', '-k', 'k.chk', '--task-name', 't'];
  const last = (): CaptureRecord | undefined => s3.records().at(-1)?.record;
  const isCommittedBy = (attempt: number): boolean => last()?.generations[0]?.attempt === attempt;
  const start = (script: string): Run => s3.run(options, script);
  const results = (): readonly string[] => s3.keys().filter((key) => key.startsWith('r.dat.'));
  const holds = (text: string): boolean => results().some((key) => s3.text(key) === text);
  const kill = async (run: Run): Promise<void> => {
    killTree(run.pid);
    await run.status;
    s3.place.freshWork();
  };
  /** Begins an attempt whose sends of the result hang, and kills it when its checkpoint is safe. */
  const closeBehindAHungPut = async (attempt: number): Promise<void> => {
    s3.server.fault = ({ operation, key }: Incoming) =>
      operation === 'PutObject' && key.includes('/r.dat.') ? { kind: 'stall' } : undefined;
    const run = start('echo newest > r.dat; echo state > k.chk; until [ -e never ]; do :; done');
    await until(() => isCommittedBy(attempt), `the checkpoint of attempt ${attempt}`);
    await kill(run);
    s3.server.fault = () => undefined;
  };
  /** The last attempt resumes behind the newest content, and does not write it again. */
  const resumed = async (): Promise<{ readonly from: string; readonly isNewestOrNamed: boolean }> => {
    const run = start('cat k.chk');
    await run.status;
    const isNamed = last()?.left.some(({ path }) => path === 'r.dat') === true;
    return { from: run.stdout(), isNewestOrNamed: isNamed || s3.text('r.dat.0') === 'newest\n' };
  };
  const WELL = { from: 'state\n', isNewestOrNamed: true };

  it('a result whose older content is stored is not whole when SIGTERM ends the task after it closed the newer one', async () => {
    const checkpoint = newDeferred<undefined>();
    s3.server.fault = ({ operation, key }: Incoming) =>
      operation === 'PutObject' && key.includes('/k.chk.')
        ? { kind: 'delay', until: checkpoint.promise }
        : undefined;
    const newest = `${ENDED('newest', 'r.dat')}; : > closed`;
    const first = start(
      `trap '${CHECKPOINT('state')}; exit 3' TERM; echo older > r.dat; ${UNTIL('go')}; ${newest}; ${UNTIL('never')}`,
    );
    await until(() => holds('older\n'), 'the older content');
    fs.writeFileSync(s3.place.at('go'), '');
    await until(() => fs.existsSync(s3.place.at('closed')), 'the newer content');
    process.kill(first.pid, 'SIGTERM');
    await until(() => holds('newest\n'), 'the newer content in the store');
    checkpoint.resolve(undefined);
    expect(await first.status, first.stderr()).toBe(75);
    s3.place.freshWork();
    expect(await resumed()).toEqual(WELL);
  });

  it('a result that a death has cut gets no name while the record of that death is on its way', async () => {
    const record = newDeferred<undefined>();
    const run = start(`${ENDED('1', 'k.chk')}; ${UNTIL('go')}; exec 3>r.dat; echo torn >&3; kill -KILL $$`);
    await until(() => isCommittedBy(1), 'the checkpoint');
    s3.server.fault = ({ operation, key }: Incoming) =>
      operation === 'PutObject' && key.endsWith('.json')
        ? { kind: 'delay', until: record.promise }
        : undefined;
    fs.writeFileSync(s3.place.at('go'), '');
    await until(() => holds('torn\n'), 'what the death has cut');
    const storedMs = Date.now();
    await until(() => Date.now() - storedMs > 10_500, 'that a task that lives on would have settled it');
    expect(results()).not.toContain('r.dat.0');
    record.resolve(undefined);
    expect(await run.status, run.stderr()).toBe(137);
    expect(results()).toEqual(['r.dat.0.partial-1']);
  });

  it('a result that an earlier attempt stored, and no record named, is not the newer one that hung', async () => {
    const first = start('echo older > r.dat; until [ -e never ]; do :; done');
    await until(() => holds('older\n'), 'the older content');
    await kill(first);
    await closeBehindAHungPut(2);
    expect(await resumed()).toEqual(WELL);
  });

  describe('a result that lacks content, and that the task closes again with the bytes that are stored, lacks nothing', () => {
    beforeEach(async () => {
      const first = start(
        `echo older > r.dat; ${UNTIL('go')}; echo newest > r.dat; echo 1 > k.chk; ${UNTIL('never')}`,
      );
      await until(() => (last()?.results.length ?? 0) > 0, 'the older content in a record');
      s3.server.fault = ({ operation, key }: Incoming) =>
        operation === 'PutObject' && key.includes('/r.dat.') ? { kind: 'stall' } : undefined;
      fs.writeFileSync(s3.place.at('go'), '');
      await until(() => isCommittedBy(1), 'the checkpoint');
      await kill(first);
      s3.server.fault = () => undefined;
    });

    it.each([
      ['', 'echo older > r.dat', 0],
      [', however often it is closed', 'echo older > r.dat; sleep 1; echo older > r.dat', 0],
      ['; but it does if it is not closed again', 'true', 74],
    ])('at the end of that attempt%s', async (_, script, status) => {
      const run = start(script);
      expect(await run.status, run.stderr()).toBe(status);
      expect(run.stderr()).toContain('what attempt 1 had written to these results before checkpoint 1-1');
      expect(last()).toMatchObject({ left: status === 0 ? [] : [{ path: 'r.dat' }] });
      expect(s3.text('r.dat.0')).toBe('older\n');
    });

    it('also for the attempt after that, which resumes behind it', async () => {
      const second = start(`echo older > r.dat; ${UNTIL('go')}; echo 2 > k.chk; ${UNTIL('never')}`);
      await until(() => last()?.results[0]?.attempt === 2, 'the record that names it');
      fs.writeFileSync(s3.place.at('go'), '');
      await until(() => isCommittedBy(2), 'the checkpoint of the second attempt');
      await kill(second);
      const third = start('cat k.chk');
      expect(await third.status, third.stderr()).toBe(0);
      expect(third.stdout()).toBe('2\n');
      expect(last()).toMatchObject({ kind: 'done', left: [] });
      expect(s3.text('r.dat.0')).toBe('older\n');
    });
  });

  it('a result that was replaced, and no record says so, is not the newer one that hung', async () => {
    const first = start('echo first > r.dat; echo begin > k.chk; until [ -e never ]; do :; done');
    await until(() => isCommittedBy(1) && (last()?.results.length ?? 0) > 0, 'the first content in a record');
    await kill(first);
    const second = start('echo second > r.dat; until [ -e never ]; do :; done');
    await until(
      () => s3.keys().includes('r.dat.0') && s3.text('r.dat.0') === 'second\n',
      'the second content',
    );
    await kill(second);
    await closeBehindAHungPut(3);
    expect(await resumed()).toEqual(WELL);
  });
});
